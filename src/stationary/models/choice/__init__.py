"""Models of choice: chains whose input is a menu."""
