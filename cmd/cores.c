/* How many processors this process may keep busy. */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

#define MOST 256u

static unsigned allowed(void)
{
    cpu_set_t set;
    const bool known = sched_getaffinity(0, sizeof set, &set) == 0; /* not where there are more than a set can tell of */
    const long n = known ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n < (long)MOST ? (unsigned)n : MOST;
}

/* "QUOTA PERIOD" or "max PERIOD" in a cgroup's cpu.max: whole processors, at least one; MOST where there is no limit. */
static unsigned quota(const char *path)
{
    unsigned long long most, period;
    FILE *f = fopen(path, "re");
    const int n = f ? fscanf(f, "%20llu %20llu", &most, &period) : 0;
    if (f)
        fclose(f);
    if (n != 2 || !period)
        return MOST;
    const unsigned long long cores = most / period + (most % period > 0);
    return cores < 1 ? 1 : cores < MOST ? (unsigned)cores : MOST;
}

/* The tightest limit of the process's cgroup (version 2) and those around it. */
static unsigned cgroup_quota(void)
{
    char group[2048] = "", path[4096];
    unsigned least = MOST;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(path, sizeof group, f)) {
        if (strncmp(path, "0::/", 4) == 0)
            snprintf(group, sizeof group, "%.*s", (int)strcspn(path + 3, "\n"), path + 3);
    }
    if (f)
        fclose(f);
    for (char *end = group + strlen(group); *group; end = strrchr(group, '/')) {
        *end = 0;
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        const unsigned n = quota(path);
        least = n < least ? n : least;
    }
    return least;
}

unsigned cmd_cores(void)
{
    const unsigned n = allowed(), limit = cgroup_quota();
    return n < limit ? n : limit;
}
