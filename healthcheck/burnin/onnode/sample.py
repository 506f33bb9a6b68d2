"""Clock, power, temperature and throttle reasons of a GPU while it works, sampled through NVML. Python 3.8.

By ctypes and nvml.h, as pynvml may be missing; in a thread of its own, as a call may hang in the driver.
"""

from __future__ import annotations

import ctypes
import statistics
import threading
from typing import Any

SAMPLE_S = 0.2
MOST_SAMPLES = 20000
NVML = "libnvidia-ml.so.1"
NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0


class Sampler:
    """Samples one GPU, by its UUID ("GPU-..."), until `figures` is called; `facts` says why it cannot."""

    def __init__(self, uuid: str, library: str = NVML) -> None:
        self.uuid, self.library = uuid, library
        self.facts: dict[str, str] = {}
        self.seen: dict[str, list[float]] = {"clock_mhz": [], "power_w": [], "temperature_c": []}
        self.bits = 0
        self.bits_seen = False
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self) -> None:
        """Starts sampling."""
        self.thread.start()

    def figures(self) -> dict[str, float]:
        """Median clock and power, highest temperature, all throttle reasons, as far as sampled."""
        self.over.set()
        self.thread.join(2.0)
        if self.thread.is_alive():
            self.facts["sampling"] = "an NVML call does not return"
        found = {name: statistics.median(values) for name, values in self.seen.items() if values}
        if self.seen["temperature_c"]:
            found["temperature_c"] = max(self.seen["temperature_c"])
        if self.bits_seen:
            found["throttle_bits"] = float(self.bits)
        return found

    def run(self) -> None:
        """The thread."""
        try:
            nvml: Any = ctypes.CDLL(self.library)
            handle = ctypes.c_void_p()
            for code in (nvml.nvmlInit_v2(),
                         nvml.nvmlDeviceGetHandleByUUID(self.uuid.encode(), ctypes.byref(handle))):
                if code:
                    raise OSError("NVML error %d" % code)
        except (OSError, AttributeError) as error:
            self.facts["sampling"] = "not sampled: %s" % error
            return
        text = ctypes.create_string_buffer(96)
        for name, call in (("serial", nvml.nvmlDeviceGetSerial), ("vbios", nvml.nvmlDeviceGetVbiosVersion)):
            if call(handle, text, ctypes.c_uint(96)) == 0:
                self.facts[name] = text.value.decode("ascii", "replace")
        if nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(96)) == 0:
            self.facts["driver"] = text.value.decode("ascii", "replace")
        limit = ctypes.c_uint()
        if nvml.nvmlDeviceGetEnforcedPowerLimit(handle, ctypes.byref(limit)) == 0:
            self.facts["power_limit_w"] = "%d" % round(limit.value / 1000)
        while not self.over.wait(SAMPLE_S):
            self.sample(nvml, handle)

    def sample(self, nvml: Any, handle: Any) -> None:
        """Takes one sample."""
        number, bits = ctypes.c_uint(), ctypes.c_ulonglong()
        reads = (("clock_mhz", 1.0, nvml.nvmlDeviceGetClockInfo, (NVML_CLOCK_SM,)),
                 ("power_w", 1000.0, nvml.nvmlDeviceGetPowerUsage, ()),
                 ("temperature_c", 1.0, nvml.nvmlDeviceGetTemperature, (NVML_TEMPERATURE_GPU,)))
        for name, unit, call, words in reads:
            if (call(handle, *(ctypes.c_uint(word) for word in words), ctypes.byref(number)) == 0
                    and len(self.seen[name]) < MOST_SAMPLES):
                self.seen[name].append(number.value / unit)
        if nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(bits)) == 0:
            self.bits_seen = True
            self.bits |= bits.value
