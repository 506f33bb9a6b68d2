/* A libnvidia-ml.so.1 for machines without a GPU: it answers as nvml.h says the real one does, from a file of raw values.
 *
 * MUSTER_NVML_SCENARIO names the file, read by the first nvmlInit; without it, eight healthy H100 answer. One `key = value` a line,
 * `#` begins a comment:
 *
 *     init = 9                                       nvmlInit returns this (NVML_ERROR_DRIVER_NOT_LOADED)
 *     driver.version = 535.161.08                    also nvml.version, cuda.version
 *     gpu.count = 7
 *     gpu.3.ecc.volatile.uncorrected = 12            one reading of GPU 3
 *     gpu.*.power.usage = 70000                      of every GPU that does not say otherwise
 *     gpu.2.ecc.mode = unsupported                   the call returns NVML_ERROR_NOT_SUPPORTED
 *     gpu.4.serial = error 999                       the call returns this
 *     gpu.5.error = 15                               every call on GPU 5 returns this (NVML_ERROR_GPU_IS_LOST)
 *     gpu.0.nvlink.7.state = 0                       of one link; `nvlink.*` is of every link that does not say otherwise
 *     gpu.0.p2p.3.read = 6                           what GPU 0 may do with the memory of GPU 3 (also write, nvlink, atomics, pci)
 *     gpu.0.processes = 4711:1048576 4712            numbers of processes, each with its memory; also processes.graphics and .mps
 *     gpu.0.field.230 = 1                            a field of nvmlDeviceGetFieldValues by its number, whatever it is
 *     fail.nvmlDeviceGetMemoryInfo = 999             the function returns this, whatever the GPU
 *     delay.nvmlDeviceGetHandleByIndex_v2 = 30       the function first sleeps so many seconds
 *     gpu.5.delay.nvmlDeviceGetHandleByIndex_v2 = 30 only where it is called for GPU 5; here too any function that names a GPU
 *
 * A file that cannot be read or a line of another form makes nvmlInit say so on standard error and return NVML_ERROR_UNKNOWN.
 * Layouts, constants and return values are those of nvml.h; what is not here is a symbol that is not found, as in an older driver.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

typedef enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999,
} nvmlReturn_t;

typedef struct nvmlDevice_st { unsigned int index; } *nvmlDevice_t;
typedef unsigned long long u64;

#define EXPORT __attribute__((visibility("default")))
#define ALIAS(target) EXPORT __attribute__((alias(#target)))
#define MOST_GPUS 64
#define NVLINKS 18
#define LONGEST_KEY 96

/* ---- the scenario ---- */

struct entry { char *key, *value; struct entry *next; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int users;
static struct entry *scenario;
static struct nvmlDevice_st devices[MOST_GPUS];

static void forget(void)
{
    while (scenario) {
        struct entry *next = scenario->next;
        free(scenario->key);
        free(scenario->value);
        free(scenario);
        scenario = next;
    }
}

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

/* A later line wins, because it is put in front. */
static bool remember(char *line)
{
    char *comment = strchr(line, '#');
    if (comment)
        *comment = '\0';
    line = trimmed(line);
    if (!*line)
        return true;
    char *equals = strchr(line, '=');
    if (!equals)
        return false;
    *equals = '\0';
    const char *key = trimmed(line), *value = trimmed(equals + 1);
    struct entry *entry = calloc(1, sizeof *entry);
    if (!*key || !*value || !entry) {
        free(entry);
        return false;
    }
    entry->key = strdup(key);
    entry->value = strdup(value);
    entry->next = scenario;
    scenario = entry;
    return entry->key && entry->value;
}

static nvmlReturn_t read_scenario(void)
{
    const char *path = getenv("MUSTER_NVML_SCENARIO");
    if (!path)
        return SUCCESS;
    FILE *file = fopen(path, "re");
    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return UNKNOWN;
    }
    char *line = NULL;
    size_t size = 0;
    nvmlReturn_t result = SUCCESS;
    for (int number = 1; result == SUCCESS && getline(&line, &size, file) >= 0; number++) {
        if (!remember(line)) {
            fprintf(stderr, "%s:%d: expected 'key = value'\n", path, number);
            result = UNKNOWN;
        }
    }
    free(line);
    fclose(file);
    return result;
}

static const char *find(const char *key)
{
    for (const struct entry *entry = scenario; entry; entry = entry->next)
        if (!strcmp(entry->key, key))
            return entry->value;
    return NULL;
}

static const char *find_for(const char *prefix, const char *name)
{
    char key[LONGEST_KEY];
    snprintf(key, sizeof key, "%s.%s", prefix, name);
    return find(key);
}

static const char *find_gpu(const struct nvmlDevice_st *device, const char *name)
{
    char prefix[16];
    snprintf(prefix, sizeof prefix, "gpu.%u", device->index);
    const char *value = find_for(prefix, name);
    return value ? value : find_for("gpu.*", name);
}

/* Whether a value stands for a return code rather than for a reading. */
static nvmlReturn_t refusal(const char *value)
{
    if (!strcmp(value, "unsupported"))
        return NOT_SUPPORTED;
    if (!strncmp(value, "error ", 6))
        return (nvmlReturn_t)atoi(value + 6);
    return SUCCESS;
}

static nvmlReturn_t parse(const char *key, const char *value, u64 *out)
{
    char *end;
    errno = 0;
    u64 number = strtoull(value, &end, 0);
    if (errno || end == value || *end || *value == '-') {
        fprintf(stderr, "scenario: %s = %s is not a number\n", key, value);
        return UNKNOWN;
    }
    *out = number;
    return SUCCESS;
}

static unsigned int gpu_count(void)
{
    const char *value = find("gpu.count");
    u64 count = 8;
    if (value && parse("gpu.count", value, &count) != SUCCESS)
        return 0;
    return count > MOST_GPUS ? MOST_GPUS : (unsigned int)count;
}

/* ---- what every call does first ---- */

static void wait_for(const char *delay)
{
    if (delay) {
        double seconds = atof(delay);
        struct timespec left = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
        while (nanosleep(&left, &left) && errno == EINTR)
            continue;
    }
}

static void wait_for_gpu(const struct nvmlDevice_st *device, const char *function)
{
    char name[LONGEST_KEY];
    snprintf(name, sizeof name, "delay.%s", function);
    wait_for(find_gpu(device, name));
}

static nvmlReturn_t enter(const char *function)
{
    if (!__atomic_load_n(&users, __ATOMIC_ACQUIRE))
        return UNINITIALIZED;
    wait_for(find_for("delay", function));
    const char *fail = find_for("fail", function);
    return fail ? (nvmlReturn_t)atoi(fail) : SUCCESS;
}

static nvmlReturn_t enter_gpu(const char *function, nvmlDevice_t device)
{
    nvmlReturn_t result = enter(function);
    if (result != SUCCESS)
        return result;
    if (device < devices || device >= devices + gpu_count())
        return INVALID_ARGUMENT;
    wait_for_gpu(device, function);
    const char *error = find_gpu(device, "error");
    return error ? (nvmlReturn_t)atoi(error) : SUCCESS;
}

/* As enter_gpu, for a structure that says of which version it is. */
static nvmlReturn_t enter_versioned(const char *function, nvmlDevice_t device, const unsigned int *version, unsigned int known)
{
    nvmlReturn_t result = enter_gpu(function, device);
    if (result != SUCCESS)
        return result;
    if (!version)
        return INVALID_ARGUMENT;
    return *version == known ? SUCCESS : ARGUMENT_VERSION_MISMATCH;
}

static nvmlReturn_t copy_text(const char *value, char *out, unsigned int length)
{
    nvmlReturn_t result = refusal(value);
    if (result != SUCCESS)
        return result;
    if (length < strlen(value) + 1)
        return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

static nvmlReturn_t system_text(const char *function, const char *key, const char *healthy, char *out, unsigned int length)
{
    nvmlReturn_t result = enter(function);
    if (result != SUCCESS)
        return result;
    if (!out)
        return INVALID_ARGUMENT;
    const char *value = find(key);
    return copy_text(value ? value : healthy, out, length);
}

/* `healthy` may hold one %u, the GPU's index: what identifies a GPU must differ from one to the next. */
__attribute__((format(printf, 4, 0)))
static nvmlReturn_t value_text(nvmlDevice_t device, const char *key, char *out, const char *healthy, unsigned int length)
{
    const char *value = find_gpu(device, key);
    char fallback[LONGEST_KEY];
    if (!value) {
        snprintf(fallback, sizeof fallback, healthy, device->index);
        value = fallback;
    }
    return copy_text(value, out, length);
}

static nvmlReturn_t value_number(nvmlDevice_t device, const char *key, u64 healthy, u64 *out)
{
    const char *value = find_gpu(device, key);
    *out = healthy;
    if (!value)
        return SUCCESS;
    nvmlReturn_t result = refusal(value);
    return result != SUCCESS ? result : parse(key, value, out);
}

static nvmlReturn_t gpu_long(const char *function, nvmlDevice_t device, const char *key, u64 healthy, u64 *out)
{
    nvmlReturn_t result = enter_gpu(function, device);
    if (result != SUCCESS)
        return result;
    return out ? value_number(device, key, healthy, out) : INVALID_ARGUMENT;
}

static nvmlReturn_t value_int(nvmlDevice_t device, const char *key, u64 healthy, unsigned int *out)
{
    u64 value = 0;
    nvmlReturn_t result = value_number(device, key, healthy, &value);
    if (result == SUCCESS)
        *out = (unsigned int)value;
    return result;
}

static nvmlReturn_t gpu_int(const char *function, nvmlDevice_t device, const char *key, u64 healthy, unsigned int *out)
{
    nvmlReturn_t result = enter_gpu(function, device);
    if (result != SUCCESS)
        return result;
    return out ? value_int(device, key, healthy, out) : INVALID_ARGUMENT;
}

/* Two readings that one call returns: current and pending, lowest and highest. */
static nvmlReturn_t gpu_pair(const char *function, nvmlDevice_t device, const char *first, u64 healthy_first, unsigned int *out_first,
                             const char *second, u64 healthy_second, unsigned int *out_second)
{
    nvmlReturn_t result = enter_gpu(function, device);
    if (result != SUCCESS)
        return result;
    if (!out_first || !out_second)
        return INVALID_ARGUMENT;
    u64 a, b;
    if ((result = value_number(device, first, healthy_first, &a)) != SUCCESS
        || (result = value_number(device, second, healthy_second, &b)) != SUCCESS)
        return result;
    *out_first = (unsigned int)a;
    *out_second = (unsigned int)b;
    return SUCCESS;
}

static nvmlReturn_t gpu_text(const char *function, nvmlDevice_t device, const char *key, const char *healthy, char *out,
                             unsigned int length)
{
    nvmlReturn_t result = enter_gpu(function, device);
    if (result != SUCCESS)
        return result;
    return out ? value_text(device, key, out, healthy, length) : INVALID_ARGUMENT;
}

#define GPU_TEXT(function, key, healthy) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, char *out, unsigned int length) \
    { return gpu_text(#function, device, key, healthy, out, length); }
#define GPU_INT(function, key, healthy) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned int *out) \
    { return gpu_int(#function, device, key, healthy, out); }
#define GPU_LONG(function, key, healthy) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, u64 *out) \
    { return gpu_long(#function, device, key, healthy, out); }
#define GPU_PAIR(function, first, healthy_first, second, healthy_second) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned int *a, unsigned int *b) \
    { return gpu_pair(#function, device, first, healthy_first, a, second, healthy_second, b); }

/* ---- the library and the system ---- */

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    nvmlReturn_t result = SUCCESS;
    if (!users) {
        for (unsigned int i = 0; i < MOST_GPUS; i++)
            devices[i].index = i;
        result = read_scenario();
        wait_for(find("delay.nvmlInitWithFlags"));
        const char *refused = find("init");
        if (result == SUCCESS && refused)
            result = (nvmlReturn_t)atoi(refused);
        if (result != SUCCESS)
            forget();
    }
    if (result == SUCCESS)
        __atomic_add_fetch(&users, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}
ALIAS(nvmlInit_v2) nvmlReturn_t nvmlInit(void);

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    pthread_mutex_lock(&lock);
    nvmlReturn_t result = users ? SUCCESS : UNINITIALIZED;
    if (users && !__atomic_sub_fetch(&users, 1, __ATOMIC_ACQ_REL))
        forget();
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    static const char *const words[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized",
        "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
        "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
        "GPU requires reset", "The operating system has blocked the request.", "RM has detected an NVML/RM version mismatch.",
        "In use by another client", "Insufficient Memory", "No data", "ECC not supported on vGPU", "Insufficient Resources",
        "Frequency not supported", "Argument version mismatch", "Deprecated", "Not Ready", "GPU not found", "Invalid State",
    };
    return (unsigned int)result < sizeof words / sizeof *words ? words[result] : "Unknown Error";
}

static const char *driver_version(void)
{
    const char *value = find("driver.version");
    return value ? value : "535.161.08";
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned int length)
{
    return system_text(__func__, "driver.version", driver_version(), out, length);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned int length)
{
    return system_text(__func__, "nvml.version", "12.535.161.08", out, length);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    nvmlReturn_t result = enter(__func__);
    if (result != SUCCESS)
        return result;
    if (!out)
        return INVALID_ARGUMENT;
    const char *value = find("cuda.version");
    u64 number = 12020;
    if (value && (result = refusal(value)) == SUCCESS)
        result = parse("cuda.version", value, &number);
    if (result == SUCCESS)
        *out = (int)number;
    return result;
}
ALIAS(nvmlSystemGetCudaDriverVersion_v2) nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *);

/* ---- handles ---- */

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *out)
{
    nvmlReturn_t result = enter(__func__);
    if (result != SUCCESS)
        return result;
    if (!out)
        return INVALID_ARGUMENT;
    *out = gpu_count();
    return SUCCESS;
}
ALIAS(nvmlDeviceGetCount_v2) nvmlReturn_t nvmlDeviceGetCount(unsigned int *);

static nvmlReturn_t handle(unsigned int index, nvmlDevice_t *out)
{
    wait_for_gpu(&devices[index], "nvmlDeviceGetHandleByIndex_v2");
    const char *error = find_gpu(&devices[index], "error");
    if (error)
        return (nvmlReturn_t)atoi(error);
    *out = &devices[index];
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *out)
{
    nvmlReturn_t result = enter(__func__);
    if (result != SUCCESS)
        return result;
    return out && index < gpu_count() ? handle(index, out) : INVALID_ARGUMENT;
}
ALIAS(nvmlDeviceGetHandleByIndex_v2) nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int, nvmlDevice_t *);

#define UUID_KEY "uuid"
#define UUID_HEALTHY "GPU-00000000-0000-4000-8000-%012x"
#define SERIAL_KEY "serial"
#define SERIAL_HEALTHY "16500000000%02u"
#define PCI_KEY "pci"
#define PCI_HEALTHY "0000:%02x:00.0"

struct address { unsigned int domain, bus, device, function; };

static bool parse_address(const char *text, struct address *out)
{
    return sscanf(text, "%x:%x:%x.%x", &out->domain, &out->bus, &out->device, &out->function) == 4;
}

static nvmlReturn_t address_of(nvmlDevice_t device, struct address *out)
{
    char text[32];
    nvmlReturn_t result = value_text(device, PCI_KEY, text, PCI_HEALTHY, sizeof text);
    return result != SUCCESS ? result : parse_address(text, out) ? SUCCESS : UNKNOWN;
}

static bool same_text(nvmlDevice_t device, const char *key, const char *healthy, const char *wanted)
{
    char text[LONGEST_KEY];
    return value_text(device, key, text, healthy, sizeof text) == SUCCESS && !strcmp(text, wanted);
}

static bool is_uuid(nvmlDevice_t device, const char *wanted) { return same_text(device, UUID_KEY, UUID_HEALTHY, wanted); }
static bool is_serial(nvmlDevice_t device, const char *wanted) { return same_text(device, SERIAL_KEY, SERIAL_HEALTHY, wanted); }

static bool is_address(nvmlDevice_t device, const char *wanted)
{
    struct address a, b;
    return parse_address(wanted, &a) && address_of(device, &b) == SUCCESS
        && a.domain == b.domain && a.bus == b.bus && a.device == b.device && a.function == b.function;
}

static nvmlReturn_t search(const char *function, bool (*is)(nvmlDevice_t, const char *), const char *wanted, nvmlDevice_t *out)
{
    nvmlReturn_t result = enter(function);
    if (result != SUCCESS)
        return result;
    if (!wanted || !out)
        return INVALID_ARGUMENT;
    for (unsigned int i = 0; i < gpu_count(); i++)
        if (is(&devices[i], wanted))
            return handle(i, out);
    return NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *wanted, nvmlDevice_t *out)
{
    return search(__func__, is_uuid, wanted, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *wanted, nvmlDevice_t *out)
{
    return search(__func__, is_serial, wanted, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *wanted, nvmlDevice_t *out)
{
    return search(__func__, is_address, wanted, out);
}
ALIAS(nvmlDeviceGetHandleByPciBusId_v2) nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *, nvmlDevice_t *);

/* ---- what a GPU is ---- */

GPU_TEXT(nvmlDeviceGetName, "name", "NVIDIA H100 80GB HBM3")
GPU_TEXT(nvmlDeviceGetUUID, UUID_KEY, UUID_HEALTHY)
GPU_TEXT(nvmlDeviceGetSerial, SERIAL_KEY, SERIAL_HEALTHY)
GPU_TEXT(nvmlDeviceGetVbiosVersion, "vbios", "96.00.74.00.01")
GPU_TEXT(nvmlDeviceGetInforomImageVersion, "inforom.image", "G520.0200.00.05")
GPU_TEXT(nvmlDeviceGetBoardPartNumber, "board.part_number", "692-2G520-0200-000")
GPU_INT(nvmlDeviceGetBrand, "brand", 14)
GPU_INT(nvmlDeviceGetArchitecture, "architecture", 9)
GPU_INT(nvmlDeviceGetPersistenceMode, "persistence_mode", 1)
GPU_INT(nvmlDeviceGetComputeMode, "compute_mode", 0)
GPU_INT(nvmlDeviceGetDisplayMode, "display.mode", 0)
GPU_INT(nvmlDeviceGetDisplayActive, "display.active", 0)
GPU_PAIR(nvmlDeviceGetCudaComputeCapability, "cuda.major", 9, "cuda.minor", 0)
GPU_PAIR(nvmlDeviceGetMigMode, "mig.mode", 0, "mig.pending", 0)

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *out)
{
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    if (!out)
        return INVALID_ARGUMENT;
    *out = device->index;
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *out)
{
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    return out ? value_int(device, "minor", device->index, out) : INVALID_ARGUMENT;
}

/* The GPU's own processor runs firmware of the driver's version. */
EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *out)
{
    enum { LENGTH = 64 };
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    if (!out)
        return INVALID_ARGUMENT;
    const char *value = find_gpu(device, "gsp.version");
    return copy_text(value ? value : driver_version(), out, LENGTH);
}

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
_Static_assert(sizeof(nvmlPciInfo_t) == 68, "nvmlPciInfo_t");

static void write_address(struct address at, nvmlPciInfo_t *out)
{
    memset(out, 0, sizeof *out);
    out->domain = at.domain;
    out->bus = at.bus & 0xff;
    out->device = at.device & 0x1f;
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.0", at.domain & 0xffff, out->bus, out->device);
    snprintf(out->busId, sizeof out->busId, "%08X:%02X:%02X.0", out->domain, out->bus, out->device);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out)
{
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    if (!out)
        return INVALID_ARGUMENT;
    struct address at;
    u64 id, subsystem;
    if ((result = address_of(device, &at)) != SUCCESS
        || (result = value_number(device, "pci.id", 0x233010de, &id)) != SUCCESS
        || (result = value_number(device, "pci.subsystem", 0x16c110de, &subsystem)) != SUCCESS)
        return result;
    write_address(at, out);
    out->pciDeviceId = (unsigned int)id;
    out->pciSubSystemId = (unsigned int)subsystem;
    return SUCCESS;
}
ALIAS(nvmlDeviceGetPciInfo_v3) nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t, nvmlPciInfo_t *);

/* ---- memory and its errors ---- */

typedef struct { u64 total, free, used; } nvmlMemory_t;
typedef struct { unsigned int version; u64 total, reserved, free, used; } nvmlMemory_v2_t;
_Static_assert(sizeof(nvmlMemory_t) == 24 && sizeof(nvmlMemory_v2_t) == 40, "nvmlMemory");

#define MEMORY_V2 ((unsigned int)sizeof(nvmlMemory_v2_t) | 2u << 24)
#define TOTAL_BYTES 85520809984ull
#define RESERVED_BYTES 579141632ull

static nvmlReturn_t memory(nvmlDevice_t device, nvmlMemory_v2_t *out)
{
    nvmlReturn_t result;
    if ((result = value_number(device, "memory.total", TOTAL_BYTES, &out->total)) != SUCCESS
        || (result = value_number(device, "memory.reserved", RESERVED_BYTES, &out->reserved)) != SUCCESS
        || (result = value_number(device, "memory.used", 0, &out->used)) != SUCCESS)
        return result;
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    if (!out)
        return INVALID_ARGUMENT;
    nvmlMemory_v2_t all;
    if ((result = memory(device, &all)) != SUCCESS)
        return result;
    /* The first version knows no reserved memory and counts it as used. */
    *out = (nvmlMemory_t){ all.total, all.free, all.used + all.reserved };
    return SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out)
{
    nvmlReturn_t result = enter_versioned(__func__, device, out ? &out->version : NULL, MEMORY_V2);
    return result == SUCCESS ? memory(device, out) : result;
}

EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    if (!current || !pending)
        return INVALID_ARGUMENT;
    u64 now, then;
    if ((result = value_number(device, "ecc.mode", 1, &now)) != SUCCESS
        || (result = value_number(device, "ecc.pending", now, &then)) != SUCCESS)
        return result;
    *current = (unsigned int)now;
    *pending = (unsigned int)then;
    return SUCCESS;
}

/* Error counters need ECC to be on (nvml.h). */
static nvmlReturn_t ecc_count(nvmlDevice_t device, unsigned int error, unsigned int counter, const char *where, u64 *out)
{
    if (error > 1 || counter > 1 || !out)
        return INVALID_ARGUMENT;
    u64 mode;
    nvmlReturn_t result = value_number(device, "ecc.mode", 1, &mode);
    if (result != SUCCESS)
        return result;
    if (!mode)
        return NOT_SUPPORTED;
    char key[LONGEST_KEY];
    snprintf(key, sizeof key, "ecc.%s.%s%s", counter ? "aggregate" : "volatile", error ? "uncorrected" : "corrected", where);
    return value_number(device, key, 0, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int error, unsigned int counter, u64 *out)
{
    nvmlReturn_t result = enter_gpu(__func__, device);
    return result != SUCCESS ? result : ecc_count(device, error, counter, "", out);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned int error, unsigned int counter,
                                                    unsigned int location, u64 *out)
{
    enum { DRAM = 2, SRAM = 7, LOCATIONS = 8 };
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    if (location >= LOCATIONS)
        return INVALID_ARGUMENT;
    if (location != DRAM && location != SRAM)
        return NOT_SUPPORTED;
    return ecc_count(device, error, counter, location == DRAM ? ".dram" : ".sram", out);
}

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
                                              unsigned int *pending, unsigned int *failed)
{
    nvmlReturn_t result = gpu_pair(__func__, device, "rows.corrected", 0, corrected, "rows.uncorrected", 0, uncorrected);
    return result != SUCCESS ? result : gpu_pair(__func__, device, "rows.pending", 0, pending, "rows.failed", 0, failed);
}

typedef struct { unsigned int max, high, partial, low, none; } nvmlRowRemapperHistogramValues_t;

EXPORT nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *out)
{
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    if (!out)
        return INVALID_ARGUMENT;
    static const char *const keys[] = { "rows.banks.max", "rows.banks.high", "rows.banks.partial", "rows.banks.low", "rows.banks.none" };
    u64 values[5];
    for (int i = 0; i < 5; i++)
        if ((result = value_number(device, keys[i], i ? 0 : 2560, &values[i])) != SUCCESS)
            return result;
    *out = (nvmlRowRemapperHistogramValues_t){ (unsigned int)values[0], (unsigned int)values[1], (unsigned int)values[2],
                                               (unsigned int)values[3], (unsigned int)values[4] };
    return SUCCESS;
}

typedef struct {
    unsigned int version;
    u64 aggregateUncParity, aggregateUncSecDed, aggregateCor, volatileUncParity, volatileUncSecDed, volatileCor;
    u64 aggregateUncBucketL2, aggregateUncBucketSm, aggregateUncBucketPcie, aggregateUncBucketMcu, aggregateUncBucketOther;
    unsigned int bThresholdExceeded;
} nvmlEccSramErrorStatus_t;
_Static_assert(sizeof(nvmlEccSramErrorStatus_t) == 104, "nvmlEccSramErrorStatus_t");

EXPORT nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *out)
{
    nvmlReturn_t result = enter_versioned(__func__, device, out ? &out->version : NULL, (unsigned int)sizeof *out | 1u << 24);
    if (result != SUCCESS)
        return result;
    u64 parity, secded, corrected, now, now_corrected, exceeded;
    if ((result = value_number(device, "ecc.sram.parity", 0, &parity)) != SUCCESS
        || (result = ecc_count(device, 1, 1, ".sram", &secded)) != SUCCESS
        || (result = ecc_count(device, 0, 1, ".sram", &corrected)) != SUCCESS
        || (result = ecc_count(device, 1, 0, ".sram", &now)) != SUCCESS
        || (result = ecc_count(device, 0, 0, ".sram", &now_corrected)) != SUCCESS
        || (result = value_number(device, "ecc.sram.threshold_exceeded", 0, &exceeded)) != SUCCESS)
        return result;
    *out = (nvmlEccSramErrorStatus_t){ .version = out->version, .aggregateUncParity = parity, .aggregateUncSecDed = secded,
                                       .aggregateCor = corrected, .volatileUncSecDed = now, .volatileCor = now_corrected,
                                       .bThresholdExceeded = (unsigned int)exceeded };
    return SUCCESS;
}

/* Pages are retired where rows cannot be remapped: before Ampere. */
EXPORT nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, unsigned int *out)
{
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    if (!out)
        return INVALID_ARGUMENT;
    return find_gpu(device, "pages.pending") ? value_int(device, "pages.pending", 0, out) : NOT_SUPPORTED;
}

/* ---- power, heat, clocks, load ---- */

GPU_INT(nvmlDeviceGetPowerUsage, "power.usage", 72000)
GPU_INT(nvmlDeviceGetPowerManagementLimit, "power.limit", 700000)
GPU_INT(nvmlDeviceGetPowerManagementDefaultLimit, "power.limit.default", 700000)
GPU_INT(nvmlDeviceGetEnforcedPowerLimit, "power.limit.enforced", 700000)
GPU_PAIR(nvmlDeviceGetPowerManagementLimitConstraints, "power.limit.min", 200000, "power.limit.max", 700000)
GPU_LONG(nvmlDeviceGetTotalEnergyConsumption, "energy", 0)
GPU_INT(nvmlDeviceGetPerformanceState, "pstate", 0)
GPU_INT(nvmlDeviceGetPowerState, "pstate", 0)
GPU_LONG(nvmlDeviceGetCurrentClocksEventReasons, "clocks.reasons", 1)
GPU_LONG(nvmlDeviceGetCurrentClocksThrottleReasons, "clocks.reasons", 1)

typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;
_Static_assert(sizeof(nvmlUtilization_t) == 8, "nvmlUtilization_t");

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out)
{
    return gpu_pair(__func__, device, "utilization.gpu", 0, out ? &out->gpu : NULL, "utilization.memory", 0, out ? &out->memory : NULL);
}

/* A reading of which there are several, by number: `many` of them, each with its healthy value. */
static nvmlReturn_t gpu_indexed(const char *function, nvmlDevice_t device, const char *key, unsigned int index, const u64 *healthy,
                                unsigned int many, unsigned int *out)
{
    nvmlReturn_t result = enter_gpu(function, device);
    if (result != SUCCESS)
        return result;
    if (index >= many || !out)
        return INVALID_ARGUMENT;
    char whole[LONGEST_KEY];
    snprintf(whole, sizeof whole, "%s.%u", key, index);
    return value_int(device, whole, healthy[index], out);
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *out)
{
    static const u64 healthy[] = { 31 };   /* the GPU's own sensor is the only one */
    return gpu_indexed(__func__, device, "temperature", sensor, healthy, 1, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int which, unsigned int *out)
{
    static const u64 healthy[] = { 95, 92, 95, 87 };   /* shutdown, slowdown, memory at most, GPU at most */
    return gpu_indexed(__func__, device, "temperature.threshold", which, healthy, 4, out);
}

typedef struct { unsigned int version; int marginTemperature; } nvmlMarginTemperature_t;
_Static_assert(sizeof(nvmlMarginTemperature_t) == 8, "nvmlMarginTemperature_t");

EXPORT nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *out)
{
    nvmlReturn_t result = enter_versioned(__func__, device, out ? &out->version : NULL, (unsigned int)sizeof *out | 1u << 24);
    if (result != SUCCESS)
        return result;
    const char *value = find_gpu(device, "temperature.margin");
    if (value && (result = refusal(value)) != SUCCESS)
        return result;
    out->marginTemperature = value ? atoi(value) : 56;   /* below nothing once it slows down */
    return SUCCESS;
}

static const u64 clocks_mhz[] = { 1980, 1980, 2619, 1545 };   /* graphics, SM, memory, video */

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int which, unsigned int *out)
{
    return gpu_indexed(__func__, device, "clocks.current", which, clocks_mhz, 4, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int which, unsigned int *out)
{
    return gpu_indexed(__func__, device, "clocks.max", which, clocks_mhz, 4, out);
}

/* ---- links ---- */

GPU_INT(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation", 5)
GPU_INT(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.generation.max", 5)
GPU_INT(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width", 16)
GPU_INT(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width.max", 16)
GPU_INT(nvmlDeviceGetPcieReplayCounter, "pcie.replays", 0)

/* What the scenario says of one link; its key, for messages. */
static const char *find_nvlink(nvmlDevice_t device, unsigned int link, const char *name, char key[LONGEST_KEY])
{
    snprintf(key, LONGEST_KEY, "nvlink.%u.%s", link, name);
    const char *value = find_gpu(device, key);
    if (value)
        return value;
    snprintf(key, LONGEST_KEY, "nvlink.*.%s", name);
    return find_gpu(device, key);
}

static nvmlReturn_t nvlink_number(nvmlDevice_t device, unsigned int link, const char *name, u64 healthy, u64 *out)
{
    char key[LONGEST_KEY];
    const char *value = find_nvlink(device, link, name, key);
    *out = healthy;
    if (!value)
        return SUCCESS;
    nvmlReturn_t result = refusal(value);
    return result != SUCCESS ? result : parse(key, value, out);
}

static nvmlReturn_t gpu_nvlink(const char *function, nvmlDevice_t device, unsigned int link, const char *name, u64 healthy, u64 *out)
{
    nvmlReturn_t result = enter_gpu(function, device);
    if (result != SUCCESS)
        return result;
    return link < NVLINKS && name && out ? nvlink_number(device, link, name, healthy, out) : INVALID_ARGUMENT;
}

#define GPU_NVLINK(function, name, healthy) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned int link, unsigned int *out) \
    { \
        u64 value = 0; \
        nvmlReturn_t result = gpu_nvlink(#function, device, link, name, healthy, out ? &value : NULL); \
        if (result == SUCCESS) \
            *out = (unsigned int)value; \
        return result; \
    }

GPU_NVLINK(nvmlDeviceGetNvLinkState, "state", 1)
GPU_NVLINK(nvmlDeviceGetNvLinkVersion, "version", 7)

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, unsigned int counter, u64 *out)
{
    static const char *const names[] = { "replay", "recovery", "crc_flit", "crc_data", "ecc_data" };
    return gpu_nvlink(__func__, device, link, counter < sizeof names / sizeof *names ? names[counter] : NULL, 0, out);
}

GPU_NVLINK(nvmlDeviceGetNvLinkRemoteDeviceType, "remote.type", 2)   /* a switch */

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *out)
{
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    if (link >= NVLINKS || !out)
        return INVALID_ARGUMENT;
    char key[LONGEST_KEY], text[32];
    const char *value = find_nvlink(device, link, "remote.pci", key);
    snprintf(text, sizeof text, "0000:%02x:00.0", 5 + link % 4);   /* the four switches of a DGX H100 */
    if (value && (result = copy_text(value, text, sizeof text)) != SUCCESS)
        return result;
    struct address at;
    if (!parse_address(text, &at))
        return UNKNOWN;
    write_address(at, out);
    return SUCCESS;
}
ALIAS(nvmlDeviceGetNvLinkRemotePciInfo_v2) nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t, unsigned int, nvmlPciInfo_t *);

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, unsigned int capability, unsigned int *out)
{
    static const char *const names[] = { "read", "write", "nvlink", "atomics", "pci" };
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS || (result = enter_gpu(__func__, peer)) != SUCCESS)
        return result;
    if (device == peer || capability >= sizeof names / sizeof *names || !out)
        return INVALID_ARGUMENT;
    char key[LONGEST_KEY];
    snprintf(key, sizeof key, "p2p.%u.%s", peer->index, names[capability]);
    return value_int(device, key, 0, out);
}

/* ---- the fabric ---- */

typedef struct {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId, state;
} nvmlGpuFabricInfo_t;

typedef struct {
    unsigned int version;
    nvmlGpuFabricInfo_t first;
    unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct {
    nvmlGpuFabricInfo_v2_t second;
    unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;
_Static_assert(sizeof(nvmlGpuFabricInfo_t) == 28, "nvmlGpuFabricInfo_t");
_Static_assert(sizeof(nvmlGpuFabricInfo_v2_t) == 36 && sizeof(nvmlGpuFabricInfo_v3_t) == 40, "nvmlGpuFabricInfo_v2_t, _v3_t");

/* On one node the cluster is all zeroes. */
static nvmlReturn_t cluster_of(nvmlDevice_t device, unsigned char out[16])
{
    memset(out, 0, 16);
    const char *value = find_gpu(device, "fabric.cluster");
    unsigned int digits = 0;
    for (; value && *value && digits < 32; value++)
        if (isxdigit((unsigned char)*value)) {
            const unsigned int nibble = (unsigned int)(isdigit((unsigned char)*value) ? *value - '0' : (*value | 32) - 'a' + 10);
            out[digits / 2] |= (unsigned char)(nibble << (digits % 2 ? 0 : 4));
            digits++;
        }
    return SUCCESS;
}

static nvmlReturn_t fabric(nvmlDevice_t device, nvmlGpuFabricInfo_t *out)
{
    enum { COMPLETED = 3 };
    u64 state, status, clique;
    nvmlReturn_t result;
    if ((result = value_number(device, "fabric.state", COMPLETED, &state)) != SUCCESS
        || (result = value_number(device, "fabric.status", SUCCESS, &status)) != SUCCESS
        || (result = value_number(device, "fabric.clique", 0, &clique)) != SUCCESS)
        return result;
    out->state = (unsigned int)state;
    out->status = (nvmlReturn_t)status;
    out->cliqueId = (unsigned int)clique;
    return cluster_of(device, out->clusterUuid);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *out)
{
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    return out ? fabric(device, out) : INVALID_ARGUMENT;
}

/* Of the health mask each part says here that it has nothing to complain of. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *out)
{
    enum { WELL = 0x1aa, HEALTHY = 1 };
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    if (!out)
        return INVALID_ARGUMENT;
    const bool third = out->version == ((unsigned int)sizeof(nvmlGpuFabricInfo_v3_t) | 3u << 24);
    if (!third && out->version != ((unsigned int)sizeof(nvmlGpuFabricInfo_v2_t) | 2u << 24))
        return ARGUMENT_VERSION_MISMATCH;
    u64 mask, summary;
    if ((result = fabric(device, &out->first)) != SUCCESS
        || (result = value_number(device, "fabric.health", WELL, &mask)) != SUCCESS
        || (result = value_number(device, "fabric.summary", HEALTHY, &summary)) != SUCCESS)
        return result;
    out->healthMask = (unsigned int)mask;
    if (third)
        ((nvmlGpuFabricInfo_v3_t *)out)->healthSummary = (unsigned char)summary;
    return SUCCESS;
}

/* ---- fields and processes ---- */

typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType;
    nvmlReturn_t nvmlReturn;
    union { double dVal; unsigned int uiVal; u64 ullVal; } value;
} nvmlFieldValue_t;
_Static_assert(sizeof(nvmlFieldValue_t) == 40, "nvmlFieldValue_t");

/* Fields that an H100 has, by the scenario's key and healthy value; with ABSENT those that it has not. Some are of a link. */
#define ABSENT (~0ull)
static const struct field { unsigned int id; bool of_link; const char *key; u64 healthy; } fields[] = {
    { 29, false, "pages.retired.corrected", ABSENT }, { 30, false, "pages.retired.uncorrected", ABSENT },
    { 31, false, "pages.pending", ABSENT },
    { 74, false, "slowdown.power", 0 }, { 75, false, "slowdown.thermal", 0 },
    { 82, false, "temperature.memory", 40 },
    { 91, false, "nvlink.count", NVLINKS }, { 94, false, "pcie.replays", 0 },
    { 161, true, "replay", 0 }, { 162, true, "recovery", 0 }, { 164, true, "speed", 26562 }, { 165, true, "state", 1 },
    { 166, true, "version", 7 },
    { 206, true, "malformed_packets", ABSENT }, { 207, true, "buffer_overruns", ABSENT }, { 208, true, "rx_errors", ABSENT },
    { 211, true, "local_integrity_errors", ABSENT }, { 214, true, "link_recovery_failed", ABSENT },
    { 215, true, "link_recovery_events", ABSENT }, { 219, true, "effective_errors", ABSENT }, { 220, true, "effective_ber", ABSENT },
    { 221, true, "symbol_errors", ABSENT }, { 222, true, "symbol_ber", ABSENT },
    { 230, false, "recovery_action", 0 },
    { 269, false, "slowdown.sw_thermal", 0 }, { 270, false, "slowdown.hw_thermal", 0 }, { 271, false, "slowdown.hw_power_brake", 0 },
};

/* The last three came with R575 under other numbers, which meant something else before, and have these since R580. */
static unsigned int known_as(unsigned int id)
{
    const int release = atoi(driver_version());
    const bool early = id >= 251 && id <= 253, late = id >= 269 && id <= 271;
    if (early)
        return release == 575 ? id + 18 : 0;
    return late && release < 580 ? 0 : id;
}

static nvmlReturn_t field(nvmlDevice_t device, nvmlFieldValue_t *out)
{
    char key[LONGEST_KEY];
    snprintf(key, sizeof key, "field.%u", out->fieldId);
    if (find_gpu(device, key))
        return value_number(device, key, 0, &out->value.ullVal);
    const unsigned int id = known_as(out->fieldId);
    for (const struct field *each = fields; each < fields + sizeof fields / sizeof *fields; each++) {
        if (each->id != id)
            continue;
        u64 links = NVLINKS;
        nvmlReturn_t result = each->of_link ? value_number(device, "nvlink.count", NVLINKS, &links) : SUCCESS;
        if (result != SUCCESS)
            return result;
        if (each->of_link && out->scopeId >= links)
            return INVALID_ARGUMENT;
        result = each->of_link ? nvlink_number(device, out->scopeId, each->key, each->healthy, &out->value.ullVal)
            : value_number(device, each->key, each->healthy, &out->value.ullVal);
        return result == SUCCESS && out->value.ullVal == ABSENT ? NOT_SUPPORTED : result;
    }
    return NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    enum { UNSIGNED_LONG_LONG = 3 };
    nvmlReturn_t result = enter_gpu(__func__, device);
    if (result != SUCCESS)
        return result;
    if (!values || count < 0)
        return INVALID_ARGUMENT;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        values[i].timestamp = now.tv_sec * 1000000ll + now.tv_nsec / 1000;
        values[i].latencyUsec = 0;
        values[i].valueType = UNSIGNED_LONG_LONG;
        values[i].value.ullVal = 0;
        values[i].nvmlReturn = field(device, &values[i]);
    }
    return SUCCESS;
}

typedef struct {
    unsigned int pid;
    u64 usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
_Static_assert(sizeof(nvmlProcessInfo_t) == 24, "nvmlProcessInfo_t");

/* `number:bytes number:bytes ...`. As nvml.h has it: with too little room the number of those that there are, and INSUFFICIENT_SIZE. */
static nvmlReturn_t processes(const char *function, nvmlDevice_t device, const char *key, unsigned int *count, nvmlProcessInfo_t *out)
{
    enum { NO_INSTANCE = -1 };
    nvmlReturn_t result = enter_gpu(function, device);
    if (result != SUCCESS)
        return result;
    if (!count)
        return INVALID_ARGUMENT;
    const char *value = find_gpu(device, key);
    if (value && (result = refusal(value)) != SUCCESS)
        return result;
    unsigned int found = 0;
    const unsigned int room = out ? *count : 0;
    for (char *end; value && *value; value = end) {
        const unsigned long pid = strtoul(value, &end, 10);
        u64 bytes = 0;
        if (end == value || (*end == ':' && (bytes = strtoull(end + 1, &end, 10), end[-1] == ':')) || (*end && *end != ' ')) {
            fprintf(stderr, "scenario: %s holds %s, which is no process\n", key, value);
            return UNKNOWN;
        }
        if (found < room)
            out[found] = (nvmlProcessInfo_t){ (unsigned int)pid, bytes, (unsigned int)NO_INSTANCE, (unsigned int)NO_INSTANCE };
        found++;
        while (*end == ' ')
            end++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(function, key) \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *out) \
    { return processes(#function, device, key, count, out); }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "processes")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "processes")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "processes.graphics")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "processes.graphics")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, "processes.mps")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "processes.mps")
