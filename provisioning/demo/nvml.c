/* A libnvidia-ml.so.1 for machines without a GPU. It answers with the raw values of a file, and otherwise as eight healthy H100 do.
 *
 * MUSTER_NVML_SCENARIO names the file, which the first nvmlInit reads. A line is `key = value`, `#` begins a comment, the last of equal
 * keys holds:
 *
 *     init = 9                                    nvmlInit returns this
 *     driver.version = 535.161.08                 also nvml.version, cuda.version
 *     driver.numbering = earlier                  of the disputed fields: none, smoothing, earlier, later (see `numberings`)
 *     gpu.count = 7
 *     gpu.3.ecc.volatile.uncorrected = 12         one reading of GPU 3
 *     gpu.*.power.usage = 70000                   of each GPU that has no such line of its own
 *     gpu.2.ecc.mode = unsupported                the call returns NVML_ERROR_NOT_SUPPORTED
 *     gpu.4.serial = error 999                    the call returns this
 *     gpu.5.error = 15                            everything about GPU 5 returns this, its handle included
 *     gpu.5.attach.error = 999                    its handle alone does
 *     gpu.5.attach.delay = 30                     attaching it takes so many seconds (`hang`: for ever): in nvmlInit, or with
 *                                                 NVML_INIT_FLAG_NO_ATTACH when its handle is asked for
 *     fail.nvmlDeviceGetSerial = 999              the function returns this; `gpu.5.fail.FUNCTION` for GPU 5
 *     delay.nvmlInitWithFlags = 30                the function first takes so many seconds; `gpu.5.delay.FUNCTION` for GPU 5
 *     gpu.0.nvlink.7.state = 0                    of one link; `nvlink.*` is of each link that has no such line of its own
 *     gpu.0.c2c.1.state = 0                       likewise, of a link to the CPU, where `c2c.count` gives it some
 *     gpu.0.p2p.3.read = 6                        what GPU 0 may do with the memory of GPU 3 (also write, nvlink, atomics, pci)
 *     gpu.0.processes = 4711:1048576 4712         numbers of processes, each with its memory; also processes.graphics and .mps
 *     gpu.0.mig.instances = 2                     with `mig.mode = 1`: its instances; `mig.1.uncorrected` are errors of one of them
 *     gpu.0.field.230 = 1                         a field of nvmlDeviceGetFieldValues by its number, whatever it is
 *     gpu.0.smoothing = 64                        power smoothing is there, its settings in so many bits (32, 64)
 *     gpu.0.platform.chassis = 1820224000000      the GPU sits in a rack; also platform.slot, .tray, .host, .peer, .module
 *
 * A file that cannot be read, or a line of another form, is reported on standard error, and nvmlInit returns NVML_ERROR_UNKNOWN.
 *
 * All numbers stand in tables and enumerations, which tests/provisioning/demo/test_nvml_numbers.py compares with nvidia-ml-py. A
 * function that is not here is a symbol that is not found, as with an older driver.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;

/* NVML_ERROR_*, beside NVML_SUCCESS */
#define ERRORS(E) \
    E(0, SUCCESS, "Success") E(1, UNINITIALIZED, "Uninitialized") E(2, INVALID_ARGUMENT, "Invalid Argument") \
    E(3, NOT_SUPPORTED, "Not Supported") E(4, NO_PERMISSION, "Insufficient Permissions") \
    E(5, ALREADY_INITIALIZED, "Already Initialized") E(6, NOT_FOUND, "Not Found") E(7, INSUFFICIENT_SIZE, "Insufficient Size") \
    E(8, INSUFFICIENT_POWER, "Insufficient External Power") E(9, DRIVER_NOT_LOADED, "Driver Not Loaded") E(10, TIMEOUT, "Timeout") \
    E(11, IRQ_ISSUE, "Interrupt Request Issue") E(12, LIBRARY_NOT_FOUND, "NVML Shared Library Not Found") \
    E(13, FUNCTION_NOT_FOUND, "Function Not Found") E(14, CORRUPTED_INFOROM, "Corrupted infoROM") E(15, GPU_IS_LOST, "GPU is lost") \
    E(16, RESET_REQUIRED, "GPU requires reset") E(17, OPERATING_SYSTEM, "The operating system has blocked the request.") \
    E(18, LIB_RM_VERSION_MISMATCH, "RM has detected an NVML/RM version mismatch.") E(19, IN_USE, "In use by another client") \
    E(20, MEMORY, "Insufficient Memory") E(21, NO_DATA, "No data") E(22, VGPU_ECC_NOT_SUPPORTED, "ECC not supported on vGPU") \
    E(23, INSUFFICIENT_RESOURCES, "Insufficient Resources") E(24, FREQ_NOT_SUPPORTED, "Frequency not supported") \
    E(25, ARGUMENT_VERSION_MISMATCH, "Argument version mismatch") E(26, DEPRECATED, "Deprecated") E(27, NOT_READY, "Not Ready") \
    E(28, GPU_NOT_FOUND, "GPU not found") E(29, INVALID_STATE, "Invalid State") \
    E(30, RESET_TYPE_NOT_SUPPORTED, "Reset type not supported") E(999, UNKNOWN, "Unknown Error")
#define AS_ENUM(number, name, words) name = number,
#define AS_CASE(number, name, words) case name: return words;
typedef enum { ERRORS(AS_ENUM) } Status;

typedef struct nvmlDevice_st { unsigned index; bool attached; } *Device;

#define API __attribute__((visibility("default")))
#define ALIAS(name, target, ...) API __attribute__((alias(#target))) Status name(__VA_ARGS__);
enum { MOST_GPUS = 64, NVLINKS = 18, KEY = 96, INIT_FLAG_NO_ATTACH = 2 };

/* ---- the scenario ---- */

static struct line { uint32_t hash; char *key, *value; } *lines;
static size_t many;
static bool hooked;     /* whether any line delays a function or makes it fail */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static struct nvmlDevice_st devices[MOST_GPUS];
enum { MOST_INSTANCES = 7 };
static struct nvmlDevice_st instances[MOST_GPUS][MOST_INSTANCES];    /* `index` is that of their GPU */

static uint32_t hash_of(const char *text)
{
    uint32_t hash = 2166136261u;
    while (*text)
        hash = (hash ^ (unsigned char)*text++) * 16777619u;
    return hash;
}

static char *trimmed(char *text)
{
    text += strspn(text, " \t\r\n");
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

static void forget(void)
{
    while (many) {
        free(lines[--many].key);
        free(lines[many].value);
    }
    free(lines);
    lines = NULL;
    hooked = false;
}

static bool remember(char *text)
{
    text[strcspn(text, "#")] = '\0';
    char *equals = strchr(text, '=');
    if (!equals)
        return !*trimmed(text);
    *equals = '\0';
    char *key = trimmed(text), *value = trimmed(equals + 1);
    struct line *more = *key && *value ? realloc(lines, (many + 1) * sizeof *lines) : NULL;
    if (!more)
        return false;
    lines = more;
    lines[many++] = (struct line){ hash_of(key), strdup(key), strdup(value) };
    hooked |= strstr(key, "delay.") || strstr(key, "fail.");
    return true;
}

static Status read_scenario(void)
{
    const char *path = getenv("MUSTER_NVML_SCENARIO");
    FILE *file = path ? fopen(path, "re") : NULL;
    if (path && !file)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    if (!file)
        return path ? UNKNOWN : SUCCESS;
    char *text = NULL;
    size_t room = 0;
    Status result = SUCCESS;
    for (int number = 1; result == SUCCESS && getline(&text, &room, file) >= 0; number++)
        if (!remember(text)) {
            fprintf(stderr, "%s:%d: expected 'key = value'\n", path, number);
            result = UNKNOWN;
        }
    free(text);
    fclose(file);
    return result;
}

/* The last line of this key, or NULL. */
__attribute__((format(printf, 1, 2)))
static const char *find(const char *form, ...)
{
    char key[KEY];
    va_list rest;
    va_start(rest, form);
    vsnprintf(key, sizeof key, form, rest);
    va_end(rest);
    const uint32_t hash = hash_of(key);
    for (size_t at = many; at--;)
        if (lines[at].hash == hash && !strcmp(lines[at].key, key))
            return lines[at].value;
    return NULL;
}

static const char *find_gpu(const struct nvmlDevice_st *device, const char *key)
{
    const char *own = find("gpu.%u.%s", device->index, key);
    return own ? own : find("gpu.*.%s", key);
}

/* What a scenario's word stands for where it is no value. */
static Status refusal(const char *value)
{
    if (!strcmp(value, "unsupported"))
        return NOT_SUPPORTED;
    return strncmp(value, "error ", 6) ? SUCCESS : (Status)atoi(value + 6);
}

/* `value`, or where the scenario has none `healthy`; a refusal, or UNKNOWN for what is no number of this kind. */
static Status number(const char *key, const char *value, u64 healthy, bool is_signed, u64 *out)
{
    *out = healthy;
    Status result = value ? refusal(value) : SUCCESS;
    if (!value || result != SUCCESS)
        return result;
    char *end;
    errno = 0;
    *out = is_signed ? (u64)strtoll(value, &end, 0) : strtoull(value, &end, 0);
    if (!errno && end != value && !*end && (is_signed || *value != '-'))
        return SUCCESS;
    fprintf(stderr, "scenario: %s = %s is not a number\n", key, value);
    return UNKNOWN;
}

static Status of_gpu(Device device, const char *key, u64 healthy, u64 *out)
{
    return number(key, find_gpu(device, key), healthy, false, out);
}

/* Of one of several links: its own line, that of all links, or `healthy`. */
static Status of_link(Device device, const char *kind, unsigned link, const char *name, u64 healthy, u64 *out)
{
    char key[KEY];
    snprintf(key, sizeof key, "%s.%u.%s", kind, link, name);
    const char *value = find_gpu(device, key);
    if (!value) {
        snprintf(key, sizeof key, "%s.*.%s", kind, name);
        value = find_gpu(device, key);
    }
    return number(key, value, healthy, false, out);
}

static Status text(const char *value, char *out, unsigned room)
{
    Status result = refusal(value);
    if (result != SUCCESS)
        return result;
    if (room < strlen(value) + 1)
        return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

static unsigned gpu_count(void)
{
    u64 count;
    if (number("gpu.count", find("gpu.count"), 8, false, &count) != SUCCESS)
        return 0;
    return count < MOST_GPUS ? (unsigned)count : MOST_GPUS;
}

static const char *driver_version(void)
{
    const char *value = find("driver.version");
    return value ? value : "535.161.08";
}

/* ---- what each call does first ---- */

static void wait_for(const char *value)
{
    while (value && !strcmp(value, "hang"))
        pause();
    const double seconds = value ? atof(value) : 0;
    struct timespec left = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    while (seconds > 0 && nanosleep(&left, &left) && errno == EINTR)
        continue;
}

static Status enter(const char *function)
{
    if (!__atomic_load_n(&users, __ATOMIC_ACQUIRE))
        return UNINITIALIZED;
    if (!hooked)
        return SUCCESS;
    wait_for(find("delay.%s", function));
    const char *fail = find("fail.%s", function);
    return fail ? (Status)atoi(fail) : SUCCESS;
}

/* What the scenario does to this function of one GPU. */
static Status hook(const char *function, Device device)
{
    char key[KEY];
    if (!hooked)
        return SUCCESS;
    snprintf(key, sizeof key, "delay.%s", function);
    wait_for(find_gpu(device, key));
    snprintf(key, sizeof key, "fail.%s", function);
    const char *fail = find_gpu(device, key);
    return fail ? (Status)atoi(fail) : SUCCESS;
}

static Status enter_gpu(const char *function, Device device)
{
    Status result = enter(function);
    if (result != SUCCESS)
        return result;
    if (device < devices || device >= devices + gpu_count())
        return INVALID_ARGUMENT;
    result = hook(function, device);
    const char *error = find_gpu(device, "error");
    return result == SUCCESS && error ? (Status)atoi(error) : result;
}

#define TRY(call) do { const Status tried = (call); if (tried != SUCCESS) return tried; } while (0)
#define ENTER_GPU(filled) do { TRY(enter_gpu(__func__, device)); if (!(filled)) return INVALID_ARGUMENT; } while (0)

/* A structure's version: its size, and its number in the highest byte (NVML_STRUCT_VERSION). */
#define VERSION(type, number) ((unsigned)sizeof(type) | (number) << 24)
#define ENTER_VERSION(type, number) do { \
    ENTER_GPU(out); \
    if (out->version != VERSION(type, number)) \
        return ARGUMENT_VERSION_MISMATCH; \
} while (0)

static Status attach(Device device)
{
    if (!device->attached)
        wait_for(find_gpu(device, "attach.delay"));
    device->attached = true;
    const char *error = find_gpu(device, "error");
    if (!error)
        error = find_gpu(device, "attach.error");
    return error ? (Status)atoi(error) : SUCCESS;
}

/* Whether a GPU is divided (MIG) into this many instances. */
static bool is_divided(Device device, u64 *out)
{
    u64 mode;
    return of_gpu(device, "mig.mode", 0, &mode) == SUCCESS && mode && of_gpu(device, "mig.instances", 0, out) == SUCCESS && *out;
}

/* ---- the library and the system ---- */

API Status nvmlInitWithFlags(unsigned flags)
{
    pthread_mutex_lock(&lock);
    Status result = SUCCESS;
    if (!users) {
        for (unsigned index = 0; index < MOST_GPUS; index++)
            devices[index] = (struct nvmlDevice_st){ index, false };
        result = read_scenario();
        wait_for(find("delay.nvmlInitWithFlags"));
        const char *refused = find("init");
        if (result == SUCCESS && refused)
            result = (Status)atoi(refused);
        if (result != SUCCESS)
            forget();
        /* A GPU that cannot be attached answers so when it is asked for. */
        for (unsigned index = 0; result == SUCCESS && !(flags & INIT_FLAG_NO_ATTACH) && index < gpu_count(); index++)
            (void)attach(&devices[index]);
    }
    if (result == SUCCESS)
        __atomic_add_fetch(&users, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return result;
}

API Status nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
ALIAS(nvmlInit, nvmlInit_v2, void)

API Status nvmlShutdown(void)
{
    pthread_mutex_lock(&lock);
    const Status result = users ? SUCCESS : UNINITIALIZED;
    if (users && !__atomic_sub_fetch(&users, 1, __ATOMIC_ACQ_REL))
        forget();
    pthread_mutex_unlock(&lock);
    return result;
}

API const char *nvmlErrorString(Status result)
{
    switch (result) { ERRORS(AS_CASE) }
    return "Unknown Error";
}

static Status system_text(const char *function, const char *key, const char *healthy, char *out, unsigned room)
{
    TRY(enter(function));
    const char *value = find("%s", key);
    return out ? text(value ? value : healthy, out, room) : INVALID_ARGUMENT;
}

API Status nvmlSystemGetDriverVersion(char *out, unsigned room)
{
    return system_text(__func__, "driver.version", driver_version(), out, room);
}

API Status nvmlSystemGetNVMLVersion(char *out, unsigned room)
{
    return system_text(__func__, "nvml.version", "12.535.161.08", out, room);
}

API Status nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    TRY(enter(__func__));
    u64 version;
    if (!out)
        return INVALID_ARGUMENT;
    TRY(number("cuda.version", find("cuda.version"), 12020, false, &version));
    *out = (int)version;
    return SUCCESS;
}
ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2, int *)

API Status nvmlDeviceGetCount_v2(unsigned *out)
{
    TRY(enter(__func__));
    if (!out)
        return INVALID_ARGUMENT;
    *out = gpu_count();
    return SUCCESS;
}
ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2, unsigned *)

/* ---- what identifies a GPU: texts that differ by its index ---- */

#define TEXTS(T) \
    T(nvmlDeviceGetName, "name", "NVIDIA H100 80GB HBM3") \
    T(nvmlDeviceGetUUID, "uuid", "GPU-00000000-0000-4000-8000-%012x") \
    T(nvmlDeviceGetSerial, "serial", "16500000000%02u") \
    T(nvmlDeviceGetVbiosVersion, "vbios", "96.00.74.00.01") \
    T(nvmlDeviceGetInforomImageVersion, "inforom.image", "G520.0200.00.05") \
    T(nvmlDeviceGetBoardPartNumber, "board.part_number", "692-2G520-0200-000")
#define PCI_HEALTHY "0000:%02x:00.0"

__attribute__((format(printf, 3, 0)))
static Status own_text(Device device, const char *key, const char *healthy, char *out, unsigned room)
{
    char made[KEY];
    const char *value = find_gpu(device, key);
    if (!value) {
        snprintf(made, sizeof made, healthy, device->index);
        value = made;
    }
    return text(value, out, room);
}

#define TEXT(function, key, healthy) \
    API Status function(Device device, char *out, unsigned room) \
    { ENTER_GPU(out); return own_text(device, key, healthy, out, room); }
TEXTS(TEXT)

/* The GPU's own processor runs firmware of the driver's version; the buffer has NVML_GSP_FIRMWARE_VERSION_BUF_SIZE bytes. */
API Status nvmlDeviceGetGspFirmwareVersion(Device device, char *out)
{
    enum { GSP_FIRMWARE_VERSION_BUF_SIZE = 64 };
    ENTER_GPU(out);
    const char *value = find_gpu(device, "gsp.version");
    return text(value ? value : driver_version(), out, GSP_FIRMWARE_VERSION_BUF_SIZE);
}

struct address { unsigned domain, bus, device, function; };

static bool parse_address(const char *from, struct address *out)
{
    return sscanf(from, "%x:%x:%x.%x", &out->domain, &out->bus, &out->device, &out->function) == 4;
}

static Status address_of(Device device, struct address *out)
{
    char found[32];
    TRY(own_text(device, "pci", PCI_HEALTHY, found, sizeof found));
    return parse_address(found, out) ? SUCCESS : UNKNOWN;
}

/* The handle of the first GPU whose text under `key` is `wanted`. A PCI address may be written in several ways. */
__attribute__((format(printf, 3, 0)))
static Status search(const char *function, const char *key, const char *healthy, const char *wanted, Device *out)
{
    TRY(enter(function));
    if (!wanted || !out)
        return INVALID_ARGUMENT;
    for (Device device = devices; device < devices + gpu_count(); device++) {
        char found[KEY];
        struct address a, b;
        const bool same = strcmp(key, "pci")
            ? own_text(device, key, healthy, found, sizeof found) == SUCCESS && !strcmp(found, wanted)
            : parse_address(wanted, &a) && address_of(device, &b) == SUCCESS && !memcmp(&a, &b, sizeof a);
        if (!same)
            continue;
        TRY(attach(device));
        *out = device;
        return SUCCESS;
    }
    return NOT_FOUND;
}

API Status nvmlDeviceGetHandleByUUID(const char *wanted, Device *out)
{
    return search(__func__, "uuid", "GPU-00000000-0000-4000-8000-%012x", wanted, out);
}

API Status nvmlDeviceGetHandleBySerial(const char *wanted, Device *out)
{
    return search(__func__, "serial", "16500000000%02u", wanted, out);
}

API Status nvmlDeviceGetHandleByPciBusId_v2(const char *wanted, Device *out)
{
    return search(__func__, "pci", PCI_HEALTHY, wanted, out);
}
ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2, const char *, Device *)

API Status nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out)
{
    TRY(enter(__func__));
    if (!out || index >= gpu_count())
        return INVALID_ARGUMENT;
    TRY(hook(__func__, &devices[index]));
    TRY(attach(&devices[index]));
    *out = &devices[index];
    return SUCCESS;
}
ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2, unsigned, Device *)

API Status nvmlDeviceGetIndex(Device device, unsigned *out)
{
    ENTER_GPU(out);
    *out = device->index;
    return SUCCESS;
}

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

static void write_address(struct address at, nvmlPciInfo_t *out)
{
    *out = (nvmlPciInfo_t){ .domain = at.domain, .bus = at.bus & 0xff, .device = at.device & 0x1f };
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.0", at.domain & 0xffff, out->bus, out->device);
    snprintf(out->busId, sizeof out->busId, "%08X:%02X:%02X.0", out->domain, out->bus, out->device);
}

API Status nvmlDeviceGetPciInfo_v3(Device device, nvmlPciInfo_t *out)
{
    struct address at;
    u64 id, subsystem;
    ENTER_GPU(out);
    TRY(address_of(device, &at));
    TRY(of_gpu(device, "pci.id", 0x233010de, &id));
    TRY(of_gpu(device, "pci.subsystem", 0x16c110de, &subsystem));
    write_address(at, out);
    out->pciDeviceId = (unsigned)id;
    out->pciSubSystemId = (unsigned)subsystem;
    return SUCCESS;
}
ALIAS(nvmlDeviceGetPciInfo, nvmlDeviceGetPciInfo_v3, Device, nvmlPciInfo_t *)

/* ---- calls that return one or two numbers ---- */

#define INTS(N) \
    N(nvmlDeviceGetBrand, "brand", BRAND_NVIDIA) \
    N(nvmlDeviceGetArchitecture, "architecture", DEVICE_ARCH_HOPPER) \
    N(nvmlDeviceGetMinorNumber, "minor", device->index) \
    N(nvmlDeviceGetPersistenceMode, "persistence_mode", 1) \
    N(nvmlDeviceGetComputeMode, "compute_mode", COMPUTEMODE_DEFAULT) \
    N(nvmlDeviceGetDisplayMode, "display.mode", 0) \
    N(nvmlDeviceGetDisplayActive, "display.active", 0) \
    N(nvmlDeviceGetPowerUsage, "power.usage", 72000) \
    N(nvmlDeviceGetPowerManagementLimit, "power.limit", 700000) \
    N(nvmlDeviceGetPowerManagementDefaultLimit, "power.limit.default", 700000) \
    N(nvmlDeviceGetEnforcedPowerLimit, "power.limit.enforced", 700000) \
    N(nvmlDeviceGetPerformanceState, "pstate", 0) \
    N(nvmlDeviceGetPowerState, "pstate", 0) \
    N(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation", 5) \
    N(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.generation.max", 5) \
    N(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width", 16) \
    N(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width.max", 16) \
    N(nvmlDeviceGetPcieReplayCounter, "pcie.replays", 0)
#define LONGS(N) \
    N(nvmlDeviceGetTotalEnergyConsumption, "energy", 0) \
    N(nvmlDeviceGetCurrentClocksEventReasons, "clocks.reasons", CLOCKS_EVENT_REASON_GPU_IDLE) \
    N(nvmlDeviceGetCurrentClocksThrottleReasons, "clocks.reasons", CLOCKS_EVENT_REASON_GPU_IDLE)
enum { BRAND_NVIDIA = 14, DEVICE_ARCH_HOPPER = 9, COMPUTEMODE_DEFAULT = 0, CLOCKS_EVENT_REASON_GPU_IDLE = 1 };

#define ONE(function, key, healthy, type) \
    API Status function(Device device, type *out) \
    { \
        u64 found; \
        ENTER_GPU(out); \
        TRY(of_gpu(device, key, healthy, &found)); \
        *out = (type)found; \
        return SUCCESS; \
    }
#define INT(function, key, healthy) ONE(function, key, healthy, unsigned)
#define LONG(function, key, healthy) ONE(function, key, healthy, u64)
INTS(INT)
LONGS(LONG)

static Status pair(const char *function, Device device, const char *first, u64 healthy_a, unsigned *a, const char *second,
                   u64 healthy_b, unsigned *b)
{
    u64 one, other;
    TRY(enter_gpu(function, device));
    if (!a || !b)
        return INVALID_ARGUMENT;
    TRY(of_gpu(device, first, healthy_a, &one));
    TRY(of_gpu(device, second, healthy_b, &other));
    *a = (unsigned)one;
    *b = (unsigned)other;
    return SUCCESS;
}

#define PAIRS(P) \
    P(nvmlDeviceGetCudaComputeCapability, "cuda.major", 9, "cuda.minor", 0) \
    P(nvmlDeviceGetMigMode, "mig.mode", 0, "mig.pending", 0) \
    P(nvmlDeviceGetPowerManagementLimitConstraints, "power.limit.min", 200000, "power.limit.max", 700000)
#define PAIR(function, first, healthy_a, second, healthy_b) \
    API Status function(Device device, unsigned *a, unsigned *b) \
    { return pair(#function, device, first, healthy_a, a, second, healthy_b, b); }
PAIRS(PAIR)

typedef struct { unsigned gpu, memory; } nvmlUtilization_t;

API Status nvmlDeviceGetUtilizationRates(Device device, nvmlUtilization_t *out)
{
    u64 parts;
    ENTER_GPU(out);
    if (is_divided(device, &parts))
        return NOT_SUPPORTED;
    return pair(__func__, device, "utilization.gpu", 0, out ? &out->gpu : NULL, "utilization.memory", 0, out ? &out->memory : NULL);
}

/* What is pending is what holds, where the scenario says no more. */
API Status nvmlDeviceGetEccMode(Device device, unsigned *now, unsigned *then)
{
    u64 current;
    ENTER_GPU(now && then);
    TRY(of_gpu(device, "ecc.mode", 1, &current));
    return pair(__func__, device, "ecc.mode", 1, now, "ecc.pending", current, then);
}

/* ---- calls that take a number and return one ---- */

static const u64 sensors[] = { 31 };                        /* NVML_TEMPERATURE_GPU is the only sensor */
static const u64 thresholds[] = { 95, 92, 95, 87 };         /* shutdown, slowdown, memory's highest, GPU's highest */
static const u64 clocks[] = { 1980, 1980, 2619, 1545 };     /* graphics, SM, memory, video */

#define INDEXED(function, key, healthy) \
    API Status function(Device device, unsigned which, unsigned *out) \
    { \
        char whole[KEY]; \
        u64 found; \
        ENTER_GPU(out && which < sizeof healthy / sizeof *healthy); \
        snprintf(whole, sizeof whole, "%s.%u", key, which); \
        TRY(of_gpu(device, whole, healthy[which], &found)); \
        *out = (unsigned)found; \
        return SUCCESS; \
    }
INDEXED(nvmlDeviceGetTemperature, "temperature", sensors)
INDEXED(nvmlDeviceGetTemperatureThreshold, "temperature.threshold", thresholds)
INDEXED(nvmlDeviceGetClockInfo, "clocks.current", clocks)
INDEXED(nvmlDeviceGetMaxClockInfo, "clocks.max", clocks)

typedef struct { unsigned version; int marginTemperature; } nvmlMarginTemperature_t;

API Status nvmlDeviceGetMarginTemperature(Device device, nvmlMarginTemperature_t *out)
{
    u64 margin;
    ENTER_VERSION(nvmlMarginTemperature_t, 1);
    TRY(number("temperature.margin", find_gpu(device, "temperature.margin"), 56, true, &margin));
    out->marginTemperature = (int)margin;
    return SUCCESS;
}

/* ---- memory and its errors ---- */

typedef struct { u64 total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; u64 total, reserved, free, used; } nvmlMemory_v2_t;

static Status memory(Device device, nvmlMemory_v2_t *out)
{
    TRY(of_gpu(device, "memory.total", 85520809984, &out->total));
    TRY(of_gpu(device, "memory.reserved", 579141632, &out->reserved));
    TRY(of_gpu(device, "memory.used", 0, &out->used));
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}

/* The first version has no reserved memory and counts it as used. */
API Status nvmlDeviceGetMemoryInfo(Device device, nvmlMemory_t *out)
{
    nvmlMemory_v2_t all;
    ENTER_GPU(out);
    TRY(memory(device, &all));
    *out = (nvmlMemory_t){ all.total, all.free, all.used + all.reserved };
    return SUCCESS;
}

API Status nvmlDeviceGetMemoryInfo_v2(Device device, nvmlMemory_v2_t *out)
{
    ENTER_VERSION(nvmlMemory_v2_t, 2);
    return memory(device, out);
}

enum { MEMORY_ERROR_TYPE_CORRECTED = 0, MEMORY_ERROR_TYPE_UNCORRECTED = 1, VOLATILE_ECC = 0, AGGREGATE_ECC = 1 };
enum { MEMORY_LOCATION_DRAM = 2, MEMORY_LOCATION_SRAM = 7, MEMORY_LOCATION_COUNT = 8 };

/* Nothing is counted while ECC is off. What is volatile is counted by instance on a GPU that is divided. */
static Status ecc(Device device, unsigned type, unsigned counter, const char *where, u64 *out)
{
    char key[KEY];
    u64 mode, parts;
    if (type > MEMORY_ERROR_TYPE_UNCORRECTED || counter > AGGREGATE_ECC || !out)
        return INVALID_ARGUMENT;
    TRY(of_gpu(device, "ecc.mode", 1, &mode));
    if (!mode || (counter == VOLATILE_ECC && is_divided(device, &parts)))
        return NOT_SUPPORTED;
    snprintf(key, sizeof key, "ecc.%s.%s%s", counter == AGGREGATE_ECC ? "aggregate" : "volatile",
             type == MEMORY_ERROR_TYPE_CORRECTED ? "corrected" : "uncorrected", where);
    return of_gpu(device, key, 0, out);
}

API Status nvmlDeviceGetTotalEccErrors(Device device, unsigned type, unsigned counter, u64 *out)
{
    TRY(enter_gpu(__func__, device));
    return ecc(device, type, counter, "", out);
}

API Status nvmlDeviceGetMemoryErrorCounter(Device device, unsigned type, unsigned counter, unsigned location, u64 *out)
{
    for (unsigned at = 0; device && at < MOST_GPUS * MOST_INSTANCES; at++)
        if (device == &instances[0][0] + at) {
            char key[KEY];
            TRY(enter_gpu(__func__, &devices[device->index]));
            if (type != MEMORY_ERROR_TYPE_UNCORRECTED || counter != VOLATILE_ECC || location == MEMORY_LOCATION_DRAM)
                return NOT_SUPPORTED;
            snprintf(key, sizeof key, "mig.%u.uncorrected", at % MOST_INSTANCES);
            return of_gpu(&devices[device->index], key, 0, out);
        }
    TRY(enter_gpu(__func__, device));
    if (location >= MEMORY_LOCATION_COUNT)
        return INVALID_ARGUMENT;
    if (location != MEMORY_LOCATION_DRAM && location != MEMORY_LOCATION_SRAM)
        return NOT_SUPPORTED;
    return ecc(device, type, counter, location == MEMORY_LOCATION_DRAM ? ".dram" : ".sram", out);
}

typedef struct {
    unsigned version;
    u64 aggregateUncParity, aggregateUncSecDed, aggregateCor, volatileUncParity, volatileUncSecDed, volatileCor;
    u64 aggregateUncBucketL2, aggregateUncBucketSm, aggregateUncBucketPcie, aggregateUncBucketMcu, aggregateUncBucketOther;
    unsigned bThresholdExceeded;
} nvmlEccSramErrorStatus_t;

API Status nvmlDeviceGetSramEccErrorStatus(Device device, nvmlEccSramErrorStatus_t *out)
{
    u64 exceeded;
    ENTER_VERSION(nvmlEccSramErrorStatus_t, 1);
    nvmlEccSramErrorStatus_t found = { .version = out->version };
    TRY(of_gpu(device, "ecc.sram.parity", 0, &found.aggregateUncParity));
    TRY(ecc(device, MEMORY_ERROR_TYPE_UNCORRECTED, AGGREGATE_ECC, ".sram", &found.aggregateUncSecDed));
    TRY(ecc(device, MEMORY_ERROR_TYPE_CORRECTED, AGGREGATE_ECC, ".sram", &found.aggregateCor));
    TRY(ecc(device, MEMORY_ERROR_TYPE_UNCORRECTED, VOLATILE_ECC, ".sram", &found.volatileUncSecDed));
    TRY(ecc(device, MEMORY_ERROR_TYPE_CORRECTED, VOLATILE_ECC, ".sram", &found.volatileCor));
    TRY(of_gpu(device, "ecc.sram.threshold_exceeded", 0, &exceeded));
    found.bThresholdExceeded = (unsigned)exceeded;
    *out = found;
    return SUCCESS;
}

API Status nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *out)
{
    u64 parts;
    ENTER_GPU(out);
    *out = is_divided(device, &parts) ? MOST_INSTANCES : 0;
    return SUCCESS;
}

API Status nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device *out)
{
    u64 parts;
    ENTER_GPU(out && index < MOST_INSTANCES);
    if (!is_divided(device, &parts))
        return NOT_SUPPORTED;
    if (index >= parts)
        return NOT_FOUND;
    *out = &instances[device->index][index];
    (*out)->index = device->index;
    return SUCCESS;
}

API Status nvmlDeviceGetRemappedRows(Device device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    u64 parts;
    ENTER_GPU(corrected && uncorrected && pending && failed);
    if (is_divided(device, &parts))
        return NOT_SUPPORTED;
    TRY(pair(__func__, device, "rows.corrected", 0, corrected, "rows.uncorrected", 0, uncorrected));
    return pair(__func__, device, "rows.pending", 0, pending, "rows.failed", 0, failed);
}

typedef struct { unsigned max, high, partial, low, none; } nvmlRowRemapperHistogramValues_t;

API Status nvmlDeviceGetRowRemapperHistogram(Device device, nvmlRowRemapperHistogramValues_t *out)
{
    static const char *const names[] = { "max", "high", "partial", "low", "none" };
    unsigned *to = (unsigned *)out;
    ENTER_GPU(out);
    for (int at = 0; at < 5; at++) {
        char key[KEY];
        u64 banks;
        snprintf(key, sizeof key, "rows.banks.%s", names[at]);
        TRY(of_gpu(device, key, at ? 0 : 2560, &banks));
        to[at] = (unsigned)banks;
    }
    return SUCCESS;
}

typedef struct { unsigned version, bChannelRepairPending, bTpcRepairPending; } nvmlRepairStatus_t;

API Status nvmlDeviceGetRepairStatus(Device device, nvmlRepairStatus_t *out)
{
    ENTER_VERSION(nvmlRepairStatus_t, 1);
    return pair(__func__, device, "repair.channel", 0, &out->bChannelRepairPending, "repair.tpc", 0, &out->bTpcRepairPending);
}

/* Only GPUs before Ampere retire pages. */
API Status nvmlDeviceGetRetiredPagesPendingStatus(Device device, unsigned *out)
{
    u64 pending;
    ENTER_GPU(out);
    if (!find_gpu(device, "pages.pending"))
        return NOT_SUPPORTED;
    TRY(of_gpu(device, "pages.pending", 0, &pending));
    *out = (unsigned)pending;
    return SUCCESS;
}

/* ---- links ---- */

enum { NVLINK_DEVICE_TYPE_SWITCH = 2, NVLINK_VERSION = 7 };

/* The links of a divided GPU are shown as down. */
static Status nvlink(const char *function, Device device, unsigned link, const char *name, u64 healthy, u64 *out)
{
    u64 parts;
    TRY(enter_gpu(function, device));
    if (name && !strcmp(name, "state") && is_divided(device, &parts))
        healthy = 0;
    return link < NVLINKS && name && out ? of_link(device, "nvlink", link, name, healthy, out) : INVALID_ARGUMENT;
}

#define OF_NVLINK(function, name, healthy) \
    API Status function(Device device, unsigned link, unsigned *out) \
    { \
        u64 found = 0; \
        TRY(nvlink(#function, device, link, name, healthy, out ? &found : NULL)); \
        *out = (unsigned)found; \
        return SUCCESS; \
    }
OF_NVLINK(nvmlDeviceGetNvLinkState, "state", 1)
OF_NVLINK(nvmlDeviceGetNvLinkVersion, "version", NVLINK_VERSION)
OF_NVLINK(nvmlDeviceGetNvLinkRemoteDeviceType, "remote.type", NVLINK_DEVICE_TYPE_SWITCH)

/* By NVML_NVLINK_ERROR_DL_*. */
static const char *const nvlink_errors[] = { "replay", "recovery", "crc_flit", "crc_data", "ecc_data" };

API Status nvmlDeviceGetNvLinkErrorCounter(Device device, unsigned link, unsigned counter, u64 *out)
{
    return nvlink(__func__, device, link, counter < sizeof nvlink_errors / sizeof *nvlink_errors ? nvlink_errors[counter] : NULL, 0, out);
}

API Status nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, nvmlPciInfo_t *out)
{
    char key[KEY], found[32];
    struct address at = { 0, 5 + link % 4, 0, 0 };      /* the four switches of a DGX H100 */
    ENTER_GPU(out && link < NVLINKS);
    snprintf(key, sizeof key, "nvlink.%u.remote.pci", link);
    const char *value = find_gpu(device, key);
    if (!value)
        value = find_gpu(device, "nvlink.*.remote.pci");
    if (value) {
        TRY(text(value, found, sizeof found));
        if (!parse_address(found, &at))
            return UNKNOWN;
    }
    write_address(at, out);
    return SUCCESS;
}
ALIAS(nvmlDeviceGetNvLinkRemotePciInfo, nvmlDeviceGetNvLinkRemotePciInfo_v2, Device, unsigned, nvmlPciInfo_t *)

enum { P2P_STATUS_OK = 0, P2P_STATUS_NOT_SUPPORTED = 5 };
/* By NVML_P2P_CAPS_INDEX_*. */
static const char *const p2p_caps[] = { "read", "write", "nvlink", "atomics", "pci" };

API Status nvmlDeviceGetP2PStatus(Device device, Device peer, unsigned capability, unsigned *out)
{
    char key[KEY];
    u64 status, parts;
    ENTER_GPU(out && capability < sizeof p2p_caps / sizeof *p2p_caps && device != peer);
    TRY(enter_gpu(__func__, peer));
    snprintf(key, sizeof key, "p2p.%u.%s", peer->index, p2p_caps[capability]);
    TRY(of_gpu(device, key, is_divided(device, &parts) || is_divided(peer, &parts) ? P2P_STATUS_NOT_SUPPORTED : P2P_STATUS_OK, &status));
    *out = (unsigned)status;
    return SUCCESS;
}

typedef struct { unsigned isC2cEnabled; } nvmlC2cModeInfo_v1_t;

/* The structure has no version, whatever the function's name says. */
API Status nvmlDeviceGetC2cModeInfoV(Device device, nvmlC2cModeInfo_v1_t *out)
{
    u64 links, enabled;
    ENTER_GPU(out);
    TRY(of_gpu(device, "c2c.count", 0, &links));
    TRY(of_gpu(device, "c2c.mode", 1, &enabled));
    out->isC2cEnabled = (unsigned)enabled;
    return links ? SUCCESS : NOT_SUPPORTED;
}

/* ---- the fabric and the rack ---- */

enum { GPU_FABRIC_STATE_COMPLETED = 3, GPU_FABRIC_HEALTH_SUMMARY_HEALTHY = 1, GPU_FABRIC_UUID_LEN = 16 };
/* Where each part of the health mask begins (NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_*), and its value where nothing is wrong. */
#define HEALTH_MASK(M) \
    M(DEGRADED_BW, 0, 2) M(ROUTE_RECOVERY, 2, 2) M(ROUTE_UNHEALTHY, 4, 2) M(ACCESS_TIMEOUT_RECOVERY, 6, 2) \
    M(INCORRECT_CONFIGURATION, 8, 1)
#define IN_MASK(name, shift, well) | (well) << (shift)

typedef struct { unsigned char clusterUuid[GPU_FABRIC_UUID_LEN]; unsigned status, cliqueId, state; } nvmlGpuFabricInfo_t;
typedef struct { unsigned version; nvmlGpuFabricInfo_t first; unsigned healthMask; } nvmlGpuFabricInfo_v2_t;
typedef struct { nvmlGpuFabricInfo_v2_t second; unsigned char healthSummary; } nvmlGpuFabricInfo_v3_t;

static Status fabric(Device device, nvmlGpuFabricInfo_t *out)
{
    u64 state, status, clique;
    TRY(of_gpu(device, "fabric.state", GPU_FABRIC_STATE_COMPLETED, &state));
    TRY(of_gpu(device, "fabric.status", SUCCESS, &status));
    TRY(of_gpu(device, "fabric.clique", 0, &clique));
    *out = (nvmlGpuFabricInfo_t){ .status = (unsigned)status, .cliqueId = (unsigned)clique, .state = (unsigned)state };
    /* On one node the cluster is all zeroes. */
    const char *cluster = find_gpu(device, "fabric.cluster");
    for (unsigned digits = 0; cluster && *cluster && digits < 2 * GPU_FABRIC_UUID_LEN; cluster++) {
        const char one[] = { *cluster, '\0' };
        if (isxdigit((unsigned char)*cluster)) {
            out->clusterUuid[digits / 2] |= (unsigned char)(strtoul(one, NULL, 16) << (digits % 2 ? 0 : 4));
            digits++;
        }
    }
    return SUCCESS;
}

API Status nvmlDeviceGetGpuFabricInfo(Device device, nvmlGpuFabricInfo_t *out)
{
    ENTER_GPU(out);
    return fabric(device, out);
}

API Status nvmlDeviceGetGpuFabricInfoV(Device device, nvmlGpuFabricInfo_v2_t *out)
{
    u64 mask, summary, newest;
    ENTER_GPU(out);
    TRY(of_gpu(device, "fabric.version", 3, &newest));
    const bool third = newest >= 3 && out->version == VERSION(nvmlGpuFabricInfo_v3_t, 3);
    if (!third && out->version != VERSION(nvmlGpuFabricInfo_v2_t, 2))
        return ARGUMENT_VERSION_MISMATCH;
    TRY(fabric(device, &out->first));
    TRY(of_gpu(device, "fabric.health", 0 HEALTH_MASK(IN_MASK), &mask));
    TRY(of_gpu(device, "fabric.summary", GPU_FABRIC_HEALTH_SUMMARY_HEALTHY, &summary));
    out->healthMask = (unsigned)mask;
    if (third)
        ((nvmlGpuFabricInfo_v3_t *)out)->healthSummary = (unsigned char)summary;
    return SUCCESS;
}

/* The two versions give the same bytes other names. */
typedef struct {
    unsigned version;
    unsigned char ibGuid[16], chassisSerialNumber[16], slotNumber, trayIndex, hostId, peerType, moduleId;
} nvmlPlatformInfo_t;

API Status nvmlDeviceGetPlatformInfo(Device device, nvmlPlatformInfo_t *out)
{
    static const char *const keys[] = { "platform.slot", "platform.tray", "platform.host", "platform.peer", "platform.module" };
    ENTER_GPU(out);
    if (out->version != VERSION(nvmlPlatformInfo_t, 2) && out->version != VERSION(nvmlPlatformInfo_t, 1))
        return ARGUMENT_VERSION_MISMATCH;
    nvmlPlatformInfo_t found = { .version = out->version };
    const char *chassis = find_gpu(device, "platform.chassis");
    bool any = chassis != NULL;
    if (chassis) {
        TRY(refusal(chassis));
        memcpy(found.chassisSerialNumber, chassis, strnlen(chassis, sizeof found.chassisSerialNumber));
    }
    for (unsigned at = 0; at < sizeof keys / sizeof *keys; at++) {
        u64 value;
        any |= find_gpu(device, keys[at]) != NULL;
        TRY(of_gpu(device, keys[at], 0, &value));
        (&found.slotNumber)[at] = (unsigned char)value;
    }
    if (any)
        *out = found;
    return any ? SUCCESS : NOT_SUPPORTED;
}

/* ---- fields ---- */

typedef struct {
    unsigned fieldId, scopeId;
    int64_t timestamp, latencyUsec;
    unsigned valueType, nvmlReturn;
    union { double dVal; int siVal; unsigned uiVal; u64 ullVal; } value;
} nvmlFieldValue_t;

enum { VALUE_TYPE_UNSIGNED_INT = 1, VALUE_TYPE_UNSIGNED_LONG_LONG = 3, VALUE_TYPE_SIGNED_INT = 5 };
enum scope { GPU, NVLINK, C2C };
#define ABSENT UINT64_MAX
#define LACKING(number, scope, key) F(number, scope, UNSIGNED_LONG_LONG, key, ABSENT)

/* Number, scope, type, the scenario's key, the healthy value. An H100 has none of those that are ABSENT. */
static const struct field { unsigned id; enum scope scope; unsigned type; const char *key; u64 healthy; } fields[] = {
#define F(number, scope, type, key, healthy) { number, scope, VALUE_TYPE_##type, key, healthy },
    F(29, GPU, UNSIGNED_INT, "pages.retired.corrected", ABSENT)
    F(30, GPU, UNSIGNED_INT, "pages.retired.uncorrected", ABSENT)
    F(31, GPU, UNSIGNED_INT, "pages.pending", ABSENT)
    F(74, GPU, UNSIGNED_LONG_LONG, "slowdown.power", 0)
    F(75, GPU, UNSIGNED_LONG_LONG, "slowdown.thermal", 0)
    F(82, GPU, UNSIGNED_INT, "temperature.memory", 40)
    F(91, GPU, UNSIGNED_INT, "nvlink.count", NVLINKS)
    F(94, GPU, UNSIGNED_INT, "pcie.replays", 0)
    F(161, NVLINK, UNSIGNED_LONG_LONG, "replay", 0)
    F(162, NVLINK, UNSIGNED_LONG_LONG, "recovery", 0)
    F(164, NVLINK, UNSIGNED_INT, "speed", 26562)
    F(165, NVLINK, UNSIGNED_INT, "state", 1)
    F(166, NVLINK, UNSIGNED_INT, "version", NVLINK_VERSION)
    F(170, GPU, UNSIGNED_INT, "c2c.count", 0)
    F(171, C2C, UNSIGNED_INT, "state", 1)
    F(193, GPU, SIGNED_INT, "tlimit.shutdown", (u64)-8)
    F(194, GPU, SIGNED_INT, "tlimit.slowdown", (u64)-2)
    F(195, GPU, SIGNED_INT, "tlimit.memory", 0)
    F(196, GPU, SIGNED_INT, "tlimit.gpu", 0)
    LACKING(206, NVLINK, "malformed_packets") LACKING(207, NVLINK, "buffer_overruns") LACKING(208, NVLINK, "rx_errors")
    LACKING(211, NVLINK, "local_integrity_errors") LACKING(214, NVLINK, "link_recovery_failed")
    LACKING(215, NVLINK, "link_recovery_events") LACKING(219, NVLINK, "effective_errors") LACKING(220, NVLINK, "effective_ber")
    LACKING(221, NVLINK, "symbol_errors") LACKING(222, NVLINK, "symbol_ber") LACKING(293, NVLINK, "raw_ber")
    F(230, GPU, UNSIGNED_INT, "recovery_action", 0)
    F(231, C2C, UNSIGNED_LONG_LONG, "crc_errors", 0)
    F(232, C2C, UNSIGNED_LONG_LONG, "replays", 0)
    LACKING(235, NVLINK, "fec.0") LACKING(236, NVLINK, "fec.1") LACKING(237, NVLINK, "fec.2") LACKING(238, NVLINK, "fec.3")
    LACKING(239, NVLINK, "fec.4") LACKING(240, NVLINK, "fec.5") LACKING(241, NVLINK, "fec.6") LACKING(242, NVLINK, "fec.7")
    LACKING(243, NVLINK, "fec.8") LACKING(244, NVLINK, "fec.9") LACKING(245, NVLINK, "fec.10") LACKING(246, NVLINK, "fec.11")
    LACKING(247, NVLINK, "fec.12") LACKING(248, NVLINK, "fec.13") LACKING(249, NVLINK, "fec.14") LACKING(250, NVLINK, "fec.15")
    LACKING(301, GPU, "rows.corrected.inactive") LACKING(302, GPU, "rows.uncorrected.inactive") LACKING(303, GPU, "banks.remapped")
    LACKING(306, GPU, "banks.none") LACKING(307, GPU, "banks.pending")
#undef F
};

/* The disputed ones (help topic `gpu`): where each numbering begins the times of slowdowns and the settings of power smoothing; 0: it
 * has none. In each they follow each other in the order below. */
static const struct numbering { const char *name; unsigned times, settings; } numberings[] = {
    { "none", 0, 0 }, { "smoothing", 0, 251 }, { "earlier", 251, 256 }, { "later", 269, 251 },
};
static const char *const times[] = { "slowdown.sw_thermal", "slowdown.hw_thermal", "slowdown.hw_power_brake" };
/* On, level of privilege, steep ramp, ceiling, floor, most and least % of floor, % of life left, profiles; of a profile its % of floor,
 * ramps up and down and hysteresis; the profile in use, and the same four of the administrator. */
static const u64 settings[] = { 0, 0, 0, 1000, 500, 90, 50, 100, 5, 60, 5000000, 5000000, 100, 0, 60, 5000000, 5000000, 100 };

/* NVIDIA's own bindings changed the numbers between these releases. */
static const struct numbering *numbering(void)
{
    const char *value = find("driver.numbering");
    for (unsigned at = 0; value && at < sizeof numberings / sizeof *numberings; at++)
        if (!strcmp(value, numberings[at].name))
            return &numberings[at];
    unsigned release = 0, update = 0;
    sscanf(driver_version(), "%u.%u", &release, &update);
    const bool early = release < 580 || (release == 580 && update < 82);
    return &numberings[release < 570 ? 0 : release < 575 ? 1 : early ? 2 : 3];
}

/* A field that a numbering places; NOT_FOUND for others. */
static Status disputed(Device device, nvmlFieldValue_t *out)
{
    const struct numbering *now = numbering();
    char key[KEY];
    u64 bits;
    if (now->times && out->fieldId - now->times < sizeof times / sizeof *times) {
        out->valueType = VALUE_TYPE_UNSIGNED_LONG_LONG;
        return of_gpu(device, times[out->fieldId - now->times], 0, &out->value.ullVal);
    }
    const unsigned at = out->fieldId - now->settings;
    if (!now->settings || at >= sizeof settings / sizeof *settings)
        return NOT_FOUND;
    TRY(of_gpu(device, "smoothing", 0, &bits));
    snprintf(key, sizeof key, "smoothing.%u", at);
    out->valueType = bits == 64 ? VALUE_TYPE_UNSIGNED_LONG_LONG : VALUE_TYPE_UNSIGNED_INT;
    return bits ? of_gpu(device, key, settings[at], &out->value.ullVal) : NOT_SUPPORTED;
}

static Status field(Device device, nvmlFieldValue_t *out)
{
    char key[KEY];
    snprintf(key, sizeof key, "field.%u", out->fieldId);
    const char *planted = find_gpu(device, key);
    const struct field *found = fields, *end = fields + sizeof fields / sizeof *fields;
    while (found < end && found->id != out->fieldId)
        found++;
    out->valueType = found < end ? found->type : VALUE_TYPE_UNSIGNED_LONG_LONG;
    const bool is_signed = out->valueType == VALUE_TYPE_SIGNED_INT;
    if (planted)
        return number(key, planted, 0, is_signed, &out->value.ullVal);
    if (found == end) {
        const Status result = disputed(device, out);
        return result == NOT_FOUND ? NOT_SUPPORTED : result;
    }
    if (found->scope == GPU)
        TRY(number(found->key, find_gpu(device, found->key), found->healthy, is_signed, &out->value.ullVal));
    else {
        const bool c2c = found->scope == C2C;
        u64 links;
        TRY(of_gpu(device, c2c ? "c2c.count" : "nvlink.count", c2c ? 0 : NVLINKS, &links));
        if (out->scopeId >= links)
            return INVALID_ARGUMENT;
        TRY(of_link(device, c2c ? "c2c" : "nvlink", out->scopeId, found->key, found->healthy, &out->value.ullVal));
    }
    return out->value.ullVal == ABSENT ? NOT_SUPPORTED : SUCCESS;
}

API Status nvmlDeviceGetFieldValues(Device device, int count, nvmlFieldValue_t *values)
{
    ENTER_GPU(values && count >= 0);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (nvmlFieldValue_t *each = values; each < values + count; each++) {
        each->timestamp = now.tv_sec * 1000000 + now.tv_nsec / 1000;
        each->latencyUsec = 0;
        each->value.ullVal = 0;
        each->nvmlReturn = field(device, each);
    }
    return SUCCESS;
}

/* ---- processes ---- */

typedef struct { unsigned pid; u64 usedGpuMemory; unsigned gpuInstanceId, computeInstanceId; } nvmlProcessInfo_t;

/* `number:bytes number:bytes ...`. Where there is too little room, *count becomes what it takes. */
static Status processes(const char *function, Device device, const char *key, unsigned *count, nvmlProcessInfo_t *out)
{
    enum { NO_INSTANCE = -1 };
    TRY(enter_gpu(function, device));
    if (!count)
        return INVALID_ARGUMENT;
    const char *value = find_gpu(device, key);
    if (value)
        TRY(refusal(value));
    const unsigned room = out ? *count : 0;
    unsigned found = 0;
    for (char *end; value && *value; value = end + strspn(end, " ")) {
        const unsigned long pid = strtoul(value, &end, 10);
        u64 bytes = 0;
        bool well = end != value;
        if (well && *end == ':') {
            const char *digits = end + 1;
            bytes = strtoull(digits, &end, 10);
            well = end != digits;
        }
        if (!well || (*end && *end != ' ')) {
            fprintf(stderr, "scenario: %s holds %s, which is no process\n", key, value);
            return UNKNOWN;
        }
        if (found < room)
            out[found] = (nvmlProcessInfo_t){ (unsigned)pid, bytes, (unsigned)NO_INSTANCE, (unsigned)NO_INSTANCE };
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(who, key) \
    API Status nvmlDeviceGet##who##RunningProcesses_v2(Device device, unsigned *count, nvmlProcessInfo_t *out) \
    { return processes(__func__, device, key, count, out); } \
    API Status nvmlDeviceGet##who##RunningProcesses_v3(Device device, unsigned *count, nvmlProcessInfo_t *out) \
    { return processes(__func__, device, key, count, out); }
PROCESSES(Compute, "processes")
PROCESSES(Graphics, "processes.graphics")
PROCESSES(MPSCompute, "processes.mps")

/* Sizes as nvidia-ml-py has them. */
_Static_assert(sizeof(nvmlPciInfo_t) == 68 && sizeof(nvmlMemory_t) == 24 && sizeof(nvmlMemory_v2_t) == 40, "memory, PCI");
_Static_assert(sizeof(nvmlEccSramErrorStatus_t) == 104 && sizeof(nvmlUtilization_t) == 8, "ECC, load");
_Static_assert(sizeof(nvmlMarginTemperature_t) == 8 && sizeof(nvmlRepairStatus_t) == 12, "margin, repair");
_Static_assert(sizeof(nvmlRowRemapperHistogramValues_t) == 20 && sizeof(nvmlC2cModeInfo_v1_t) == 4, "banks, C2C");
_Static_assert(sizeof(nvmlGpuFabricInfo_t) == 28 && sizeof(nvmlGpuFabricInfo_v2_t) == 36, "fabric");
_Static_assert(sizeof(nvmlGpuFabricInfo_v3_t) == 40 && sizeof(nvmlPlatformInfo_t) == 44, "fabric, platform");
_Static_assert(sizeof(nvmlFieldValue_t) == 40 && sizeof(nvmlProcessInfo_t) == 24, "field, process");
