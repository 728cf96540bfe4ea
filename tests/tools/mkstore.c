/*
 * Stores of any size without a model, and what using them costs.
 *
 *   mkstore -s DIR -n N [--pins P]     N objects in chains of 10 pages, P of the chains pinned
 *   mkstore -s DIR -n N --lookup K     look K of their pages up: µs a page
 *   mkstore --measure COMMAND...       run it: seconds of wall and processor time, peak memory in MB; its exit status
 *
 * Objects are written without syncing, so that a million takes minutes and not hours.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/store_dir.h"

#define CHAIN 10u

static struct akv_err err;

static void die(const char *what)
{
    fprintf(stderr, "mkstore: %s: %s\n", what, err.code ? err.msg : strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void make_head(struct akv_head *head)
{
    struct akv_root_field fields[] = {{"kv", "f16"}, {"numerics", "1"}, {"weights", "none"}};
    struct akv_head h = {
        .geom = {.n_layers = 1, .n_kv_heads = 1, .dim_k = 1, .dim_v = 1, .dtype = AKV_KV_F16}, .fields = fields, .n_fields = 3};
    if (akv_root_hash(&h.root, fields, 3, &err) < 0 || akv_head_copy(head, &h, &err) < 0)
        die("head");
}

/* Page i of a chain: its ids follow from both. */
static void make_page(struct akv_page_rec *rec, uint32_t *ids, uint32_t chain, uint32_t i, const struct akv_key *parent)
{
    for (uint32_t k = 0; k < AKV_PAGE_TOKENS; k++)
        ids[k] = (chain * 7919u + i * 104729u + k * 31u) % 1000003u;
    ids[0] = chain;
    *rec = (struct akv_page_rec){
        .index = i, .n_tokens = AKV_PAGE_TOKENS, .ids = ids, .has_parent = i > 0, .raw_bytes = AKV_PAGE_TOKENS * 4};
    if (i)
        rec->parent = *parent;
    if (akv_page_key(&rec->key, i ? parent : NULL, ids, AKV_PAGE_TOKENS, &err) < 0)
        die("key");
}

static void write_object(struct akv_store *s, const struct akv_head *head, const struct akv_page_rec *rec)
{
    struct akv_object_name name;
    struct akv_writer *w;
    if (akv_object_name(&name, &head->root, &rec->key, &err) < 0)
        die("name");
    char ab[3] = {name.s[0], name.s[1], '\0'};
    int fd = openat(s->objects, name.s, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 && errno == ENOENT && mkdirat(s->objects, ab, 0700) == 0)
        fd = openat(s->objects, name.s, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || akv_writer_open(&w, fd, name.s, head, &err) < 0 ||
        (rec->has_parent && akv_writer_exclude(w, &rec->parent, &err) < 0) || akv_writer_page(w, rec, &err) < 0 ||
        akv_writer_close(w, NULL, &err) < 0 || close(fd) < 0)
        die(name.s);
}

static void make_store(struct akv_store *s, const struct akv_head *head, uint32_t n, uint32_t n_pins)
{
    struct akv_coder coder = {0};
    struct akv_buf coded;
    uint32_t ids[AKV_PAGE_TOKENS];
    struct akv_page_rec rec;
    struct akv_key key;
    akv_buf_init(&coded, 0);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t body[AKV_PAGE_TOKENS * 4];
        make_page(&rec, ids, i / CHAIN, i % CHAIN, &key);
        for (size_t k = 0; k < sizeof body; k++)
            body[k] = rec.key.b[k % sizeof rec.key.b];
        akv_buf_clear(&coded);
        if (akv_sha256(rec.raw_sha, body, sizeof body, &err) < 0 ||
            akv_body_encode(&coder, &head->geom, body, sizeof body, AKV_CODEC_RAW, &rec.codec, &coded, &err) < 0)
            die("page");
        rec.coded = (const uint8_t *)coded.data;
        rec.coded_bytes = coded.len;
        write_object(s, head, &rec);
        key = rec.key;
        if ((i % CHAIN != CHAIN - 1 && i != n - 1) || i / CHAIN >= n_pins)
            continue;
        char name[32];
        struct akv_ref ref = {.name = name, .root = head->root, .tip = key};
        snprintf(name, sizeof name, "pin-%u", i / CHAIN);
        if (akv_store_ref_put(s, &ref, &err) < 0)
            die("pin");
    }
    akv_buf_release(&coded);
    akv_coder_release(&coder);
}

static void look_up(struct akv_store *s, const struct akv_head *head, uint32_t n, uint32_t n_lookups)
{
    uint32_t ids[AKV_PAGE_TOKENS], done = 0;
    double spent = 0;
    for (uint32_t c = 0; done < n_lookups; c = (c + 7907u) % (n / CHAIN)) {
        struct akv_key key;
        for (uint32_t i = 0; i < CHAIN && done < n_lookups; i++, done++) {
            struct akv_page_rec want, got;
            make_page(&want, ids, c, i, &key);
            double start = now();
            if (akv_store_get(s, head, &want.key, i ? &key : NULL, i, ids, AKV_PAGE_TOKENS, &got, &err) != 1)
                die("a page is not there");
            akv_store_touch(s, head, &want.key);
            spent += now() - start;
            key = want.key;
        }
    }
    printf("lookup %.1f us a page\n", spent * 1e6 / n_lookups);
}

static int measure(char **command)
{
    struct rusage use;
    int status = 0;
    double start = now();
    pid_t pid = fork();
    if (pid == 0) {
        execvp(command[0], command);
        die(command[0]);
    }
    if (pid < 0 || wait4(pid, &status, 0, &use) != pid)
        die("wait");
    fprintf(stderr, "%.1f s, %.1f s of processor time, %.0f MB\n", now() - start,
            (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6,
            (double)use.ru_maxrss / 1024);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int main(int argc, char **argv)
{
    const char *dir = NULL;
    uint32_t n = 1000, n_pins = 0, n_lookups = 0;
    static const struct option longs[] = {
        {"pins", required_argument, NULL, 'p'}, {"lookup", required_argument, NULL, 'l'}, {"measure", no_argument, NULL, 'm'}, {0}};
    for (int c; (c = getopt_long(argc, argv, "+s:n:", longs, NULL)) != -1;) {
        if (c == 'm')
            return measure(argv + optind);
        if (c == 's')
            dir = optarg;
        else if (c == 'n' || c == 'p' || c == 'l')
            *(c == 'n' ? &n : c == 'p' ? &n_pins : &n_lookups) = (uint32_t)strtoul(optarg, NULL, 10);
        else
            return 2;
    }
    struct akv_store *s;
    struct akv_head head;
    if (!dir || n < CHAIN)
        return 2;
    make_head(&head);
    if (akv_store_open(&s, dir, AKV_STORE_CREATE, &err) < 0)
        die(dir);
    if (n_lookups)
        look_up(s, &head, n, n_lookups);
    else
        make_store(s, &head, n, n_pins);
    akv_store_close(s);
    akv_head_release(&head);
    return 0;
}
