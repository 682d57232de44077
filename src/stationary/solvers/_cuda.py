"""CUDA sources of ours, compiled when first needed.

By NVRTC and the driver, both of which come with a CUDA build of torch: no compiler or toolkit is
needed, and nothing here is imported or looked for where chains are on the CPU. The two are called
through their C interfaces, since torch's own way (`torch.cuda._compile_kernel`) is private and asks
for a toolkit.
"""

from __future__ import annotations

import ctypes
import logging
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A compiled function; it runs on the current stream of the device it was compiled for."""

    function: ctypes.c_void_p
    context: ctypes.c_void_p
    device: torch.device

    def __call__(self, grid: tuple[int, int], block: int, *args: Tensor | int) -> None:
        """Launch. Tensors are contiguous and on the device; whole numbers arrive as ``long long``.

        Raises
        ------
        RuntimeError
            If the driver refuses the launch.
        """
        values = [
            ctypes.c_void_p(arg.data_ptr()) if isinstance(arg, Tensor) else ctypes.c_longlong(arg)
            for arg in args
        ]
        pointers = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values)
        )
        with torch.cuda.device(self.device):
            # A thread that has not called CUDA yet, as autograd's, has no context.
            _check(_driver().cuCtxSetCurrent(self.context), "prepare for")
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            _check(
                _driver().cuLaunchKernel(
                    self.function, *grid, 1, block, 1, 1, 0, stream, pointers, None
                ),
                "launch",
            )


@lru_cache(maxsize=256)
def kernels(
    source: str, names: tuple[str, ...], device: torch.device, **defines: int
) -> tuple[Kernel, ...] | None:
    """Compile a source of this folder and return the kernels named, or None where that fails.

    A failure is logged once, and whoever asked goes on with tensor operations.
    """
    try:
        with torch.cuda.device(device):
            torch.cuda.current_stream().synchronize()  # makes torch's context the current one
            image = _compiled(source, device, defines)
            module, context = ctypes.c_void_p(), ctypes.c_void_p()
            _check(_driver().cuCtxGetCurrent(ctypes.byref(context)), "prepare for")
            _check(_driver().cuModuleLoadData(ctypes.byref(module), image), "load")
            return tuple(Kernel(_function(module, name), context, device) for name in names)
    except (OSError, RuntimeError) as error:
        _log.warning("%s was not compiled; tensor operations take its place: %s", source, error)
        return None


def _function(module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
    function = ctypes.c_void_p()
    _check(_driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode()), "find")
    return function


def _compiled(source: str, device: torch.device, defines: dict[str, int]) -> Any:
    nvrtc = _nvrtc()
    major, minor = torch.cuda.get_device_capability(device)
    options = [f"--gpu-architecture=sm_{major}{minor}", "--std=c++17"]
    options += [f"-D{name}={value}" for name, value in defines.items()]
    text = resources.files(__package__).joinpath(source).read_bytes()
    program = ctypes.c_void_p()
    _check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None),
        "read",
    )
    try:
        flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if nvrtc.nvrtcCompileProgram(program, len(options), flags):
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise RuntimeError(log.value.decode(errors="replace"))
        size = ctypes.c_size_t()
        _check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "compile")
        image = ctypes.create_string_buffer(size.value)
        _check(nvrtc.nvrtcGetCUBIN(program, image), "compile")
        return image
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


@lru_cache(maxsize=1)
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@lru_cache(maxsize=1)
def _nvrtc() -> ctypes.CDLL:
    major = str(torch.version.cuda).partition(".")[0]
    # Beside torch, as its wheels install it, where the loader does not look.
    beside = Path(torch.__file__).parent.parent.glob(f"nvidia/*/lib/libnvrtc.so.{major}*")
    for name in (f"libnvrtc.so.{major}", *map(str, sorted(beside)), "libnvrtc.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError(f"no NVRTC library of CUDA {major} was found")


def _check(status: int, what: str) -> None:
    if status:
        raise RuntimeError(f"CUDA said error {status} when asked to {what} a kernel")
