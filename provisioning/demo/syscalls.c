/* Preloaded into what runs on a demo node: statvfs(3) and adjtimex(2) answer from tables in the node's tree, not from this machine.
 *
 * MUSTER_ROOT names the tree. For a path inside it, statvfs answers from TREE/.muster/statvfs, one mount point a line, escaped as in
 * mountinfo (a blank is \040), then the ten figures of struct statvfs in its order:
 *
 *     / 4096 4096 460000000 300000000 276000000 117000000 116000000 116000000 4096 255
 *
 * The mount point that holds the path answers, the last of equal ones, as the kernel would. adjtimex and ntp_adjtime answer
 * from TREE/.muster/adjtimex, lines of `name = number` in the names of struct timex, `state` being the return value; setting
 * the clock is refused with EPERM. A table that is missing or damaged is EIO, never this machine's own figures. All other
 * paths, and everything when MUSTER_ROOT is not set, go to the C library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>

static const char *tree(void)
{
    const char *root = getenv("MUSTER_ROOT");
    return root && strcmp(root, "/") && *root ? root : NULL;
}

static FILE *table(const char *name)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/.muster/%s", tree(), name);
    return length < (int)sizeof path ? fopen(path, "re") : NULL;
}

/* The path as the node sees it, with one slash where there were several and none at the end; NULL when it is outside the tree. */
static const char *inside(const char *path, char out[PATH_MAX])
{
    const char *root = tree();
    size_t length = root ? strlen(root) : 0;
    while (length && root[length - 1] == '/')
        length--;
    if (!length || strncmp(path, root, length) || (path[length] && path[length] != '/') || strlen(path) >= PATH_MAX)
        return NULL;
    char *end = out;
    for (const char *at = path + length; *at; at++)
        if (*at != '/' || end == out || end[-1] != '/')
            *end++ = *at;
    if (end == out)
        *end++ = '/';
    if (end > out + 1 && end[-1] == '/')
        end--;
    *end = '\0';
    return out;
}

static void unescape(char *text)
{
    char *out = text;
    for (unsigned int value; *text; out++) {
        if (text[0] == '\\' && sscanf(text + 1, "%3o", &value) == 1 && strlen(text) >= 4) {
            *out = (char)value;
            text += 4;
        } else {
            *out = *text++;
        }
    }
    *out = '\0';
}

static bool holds(const char *mount, const char *path)
{
    size_t length = strlen(mount);
    return !strcmp(mount, "/") || (!strncmp(mount, path, length) && (!path[length] || path[length] == '/'));
}

/* Whether the table has a mount point that holds the path; `out` is filled from the longest. */
static bool look_up(const char *path, struct statvfs *out)
{
    FILE *file = table("statvfs");
    if (!file)
        return false;
    char *line = NULL;
    size_t size = 0, longest = 0;
    bool found = false, damaged = false;
    while (!damaged && getline(&line, &size, file) >= 0) {
        char mount[PATH_MAX];
        unsigned long long v[10];
        if (sscanf(line, "%4095s %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu", mount, v, v + 1, v + 2, v + 3, v + 4, v + 5,
                   v + 6, v + 7, v + 8, v + 9) != 11) {
            damaged = true;
            break;
        }
        unescape(mount);
        if (!holds(mount, path) || strlen(mount) < longest)
            continue;
        found = true;
        longest = strlen(mount);
        memset(out, 0, sizeof *out);
        out->f_bsize = v[0];
        out->f_frsize = v[1];
        out->f_blocks = v[2];
        out->f_bfree = v[3];
        out->f_bavail = v[4];
        out->f_files = v[5];
        out->f_ffree = v[6];
        out->f_favail = v[7];
        out->f_flag = v[8];
        out->f_namemax = v[9];
    }
    free(line);
    fclose(file);
    return found && !damaged;
}

static int answer(const char *name, const char *path, struct statvfs *out)
{
    char path_in_tree[PATH_MAX];
    struct stat there;
    if (!inside(path, path_in_tree)) {
        int (*real)(const char *, struct statvfs *);
        *(void **)&real = dlsym(RTLD_NEXT, name);
        return real(path, out);
    }
    if (stat(path, &there))
        return -1;
    if (look_up(path_in_tree, out))
        return 0;
    errno = EIO;
    return -1;
}

int statvfs(const char *restrict path, struct statvfs *restrict out)
{
    return answer("statvfs", path, out);
}

/* On 64-bit machines, the only ones that hold such GPUs, both structures are one. */
_Static_assert(sizeof(struct statvfs) == sizeof(struct statvfs64), "statvfs and statvfs64 differ");

int statvfs64(const char *restrict path, struct statvfs64 *restrict out)
{
    return answer("statvfs64", path, (struct statvfs *)out);
}

static bool read_clock(struct timex *out, long *state)
{
    FILE *file = table("adjtimex");
    if (!file)
        return false;
    memset(out, 0, sizeof *out);
    *state = -1;
    int status = 0, tai = 0;
    struct { const char *name; long *value; int *narrow; } names[] = {
        { "state", state, NULL }, { "offset", &out->offset, NULL }, { "freq", &out->freq, NULL }, { "maxerror", &out->maxerror, NULL },
        { "esterror", &out->esterror, NULL }, { "status", NULL, &status }, { "constant", &out->constant, NULL },
        { "precision", &out->precision, NULL }, { "tolerance", &out->tolerance, NULL }, { "tick", &out->tick, NULL }, { "tai", NULL, &tai },
    };
    char name[32];
    long value;
    int fields;
    bool damaged = false;
    while (!damaged && (fields = fscanf(file, " %31[a-z] = %ld", name, &value)) != EOF) {
        damaged = true;
        for (size_t i = 0; fields == 2 && i < sizeof names / sizeof *names; i++) {
            if (strcmp(name, names[i].name))
                continue;
            if (names[i].value)
                *names[i].value = value;
            else
                *names[i].narrow = (int)value;
            damaged = false;
        }
    }
    fclose(file);
    out->status = status;
    out->tai = tai;
    return !damaged && *state >= 0;
}

static int clock_answer(const char *function, struct timex *out)
{
    if (!tree()) {
        int (*real)(struct timex *);
        *(void **)&real = dlsym(RTLD_NEXT, function);
        return real(out);
    }
    if (out->modes) {
        errno = EPERM;
        return -1;
    }
    long state;
    if (read_clock(out, &state))
        return (int)state;
    errno = EIO;
    return -1;
}

int adjtimex(struct timex *out)
{
    return clock_answer("adjtimex", out);
}

int ntp_adjtime(struct timex *out)
{
    return clock_answer("ntp_adjtime", out);
}
