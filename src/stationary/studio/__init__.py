"""The studio: a saved plan in the browser, on this machine alone.

A page is a template filled on the server and one module of JavaScript. What must be quick, the
curve of the estimates, is computed here at once; what takes seconds, intervals and limits, comes
from a process of its own (`stationary.studio.slow`), and a new plan from another
(`stationary.studio.work`), which writes it to a folder by itself. Plans are never changed: one that
is made anew has a new folder.
"""
