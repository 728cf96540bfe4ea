/* Runs a fuzz target over files, and over every file of the directories named: a plain program of any build. */
#include <dirent.h>
#include <string.h>

#include "base/io.h"
#include "tests/fuzz/fuzz.h"

static size_t n_run;

/* Heap memory of exactly the input's size, so that a sanitizer sees a read behind it. */
static void run_file(const char *path)
{
    struct akv_map map;
    struct akv_err err = {0};
    if (akv_map_open(&map, path, &err) < 0) { /* an empty file has no mapping and is an input too */
        uint8_t nothing = 0;
        fprintf(stderr, "%s\n", err.msg);
        LLVMFuzzerTestOneInput(&nothing, 0);
        return;
    }
    uint8_t *copy = malloc(map.size ? map.size : 1);
    must(copy);
    memcpy(copy, map.data, map.size);
    fprintf(stderr, "%s: %zu bytes\n", path, map.size);
    LLVMFuzzerTestOneInput(copy, map.size);
    free(copy);
    akv_map_close(&map);
    n_run++;
}

static void run_directory(DIR *dir, const char *path)
{
    for (const struct dirent *e; (e = readdir(dir));) {
        char inner[4096];
        if (e->d_name[0] == '.')
            continue;
        must(snprintf(inner, sizeof inner, "%s/%s", path, e->d_name) < (int)sizeof inner);
        run_file(inner);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (dir)
            run_directory(dir, argv[i]);
        else
            run_file(argv[i]);
        if (dir)
            closedir(dir);
    }
    printf("%zu inputs\n", n_run);
    return n_run ? 0 : 1;
}
