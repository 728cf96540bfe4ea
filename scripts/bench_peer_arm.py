"""llama.cpp as an arm of bench-peer, through its C interface. See scripts/bench-peer for the rules.

bench_peer_arm.py info                      version and instruction sets
bench_peer_arm.py tests MODEL N_CTX         a test a line on standard input (JSON), its result a line on standard output
bench_peer_arm.py start MODEL IDS THREADS   open and evaluate the ids of a file: one result
bench_peer_arm.py save MODEL IDS THREADS STATE      evaluate and save the state
bench_peer_arm.py restore MODEL IDS THREADS STATE   open, load the state of all ids but the last, evaluate the last: one result
"""

import ctypes
import json
import resource
import sys
import time

import llama_cpp as L


@L.llama_log_callback
def quiet(level, text, data):
    pass


def check(ok, what):
    if not ok:
        sys.exit("peer: " + what)


def cpu_seconds():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_utime + r.ru_stime


def status(key):
    """A size of /proc/self/status, in bytes."""
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    return 0


def open_model(path):
    model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
    check(model, path + ": cannot open")
    return model


def open_context(model, n_ctx, threads, flash):
    p = L.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_ubatch = n_ctx, 2048, 512
    p.n_threads = p.n_threads_batch = threads
    p.flash_attn_type = 1 if flash else 0
    p.swa_full = False
    p.no_perf = True
    ctx = L.llama_init_from_model(model, p)
    check(ctx, "no context")
    return ctx


def best_id(ctx, n_vocab):
    logits = L.llama_get_logits_ith(ctx, -1)
    best, at = logits[0], 0
    for i in range(1, n_vocab):
        if logits[i] > best:
            best, at = logits[i], i
    return at


class Tests:
    """Both contexts of a model, with flash attention and without."""

    def __init__(self, path, n_ctx):
        self.base_rss = status("VmRSS")
        self.model = open_model(path)
        self.n_vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(self.model))
        self.n_ctx = n_ctx
        self.ctx = {}  # by flash
        self.choice = {}  # flash, by test and threads
        # the ids of akv-bench
        self.ids = (L.llama_token * n_ctx)(*[(i * 7919 + 17) % self.n_vocab for i in range(n_ctx)])

    def context(self, flash):
        if flash not in self.ctx:
            self.ctx[flash] = open_context(self.model, self.n_ctx, 1, flash)
        return self.ctx[flash]

    def at(self, i):
        return ctypes.cast(ctypes.byref(self.ids, i * ctypes.sizeof(L.llama_token)), ctypes.POINTER(L.llama_token))

    def evaluate(self, ctx, n_from, n_to):
        for i in range(n_from, n_to, 2048):
            n = min(2048, n_to - i)
            check(L.llama_decode(ctx, L.llama_batch_get_one(self.at(i), n)) == 0, "llama_decode failed")

    def reach(self, ctx, depth):
        """Exactly the first `depth` ids stand in the KV."""
        memory = L.llama_get_memory(ctx)
        have = L.llama_memory_seq_pos_max(memory, 0) + 1
        if have > depth and depth and L.llama_memory_seq_rm(memory, 0, depth, -1):
            have = depth
        elif have > depth:
            L.llama_memory_clear(memory, True)
            have = 0
        self.evaluate(ctx, have, depth)
        L.llama_synchronize(ctx)

    def run(self, flash, threads, prompt, gen, depth):
        ctx = self.context(flash)
        L.llama_set_n_threads(ctx, threads, threads)
        self.reach(ctx, depth)
        singles = [L.llama_batch_get_one(self.at(depth + i), 1) for i in range(gen)]
        decode, synchronize = L.llama_decode, L.llama_synchronize
        cpu, start = cpu_seconds(), time.perf_counter_ns()
        self.evaluate(ctx, depth, depth + prompt)
        for batch in singles:
            decode(ctx, batch)
        synchronize(ctx)
        ns = time.perf_counter_ns() - start
        cpu = cpu_seconds() - cpu
        stands = L.llama_memory_seq_pos_max(L.llama_get_memory(ctx), 0) + 1
        check(stands == depth + prompt + gen, "the KV holds %d tokens, not %d" % (stands, depth + prompt + gen))
        best_id(ctx, 1)
        return {"ns": ns, "cpu_ns": cpu * 1e9, "flash": flash}

    def answer(self, ask):
        if ask["test"] == "memory":
            return self.memory(ask["threads"])
        work = (ask["prompt"], ask["gen"], ask["depth"])
        key = (ask["threads"],) + work
        if ask["test"] == "warm-up":  # and choose
            times = {f: self.run(f, ask["threads"], *work)["ns"] for f in (True, False)}
            self.choice[key] = min(times, key=times.get)
            return {"flash": self.choice[key], "on_ns": times[True], "off_ns": times[False]}
        return self.run(self.choice[key], *key)

    def memory(self, threads):
        """A whole context with flash attention, which takes less."""
        self.run(True, threads, self.n_ctx - 1, 0, 0)
        return {"base_rss": self.base_rss}


def tests(path, n_ctx):
    t = Tests(path, int(n_ctx))
    for line in sys.stdin:
        print(json.dumps(t.answer(json.loads(line))), flush=True)


def read_ids(path):
    with open(path) as f:
        ids = json.load(f)
    return (L.llama_token * len(ids))(*ids), len(ids)


def start(path, ids_path, threads, state=None, save=False):
    ids, n = read_ids(ids_path)
    n_ctx = 256 if n < 200 else 2304
    cpu, begin = cpu_seconds(), time.perf_counter_ns()
    model = open_model(path)
    ctx = open_context(model, n_ctx, int(threads), True)
    done = 0
    if state and not save:
        room, count = (L.llama_token * n)(), ctypes.c_size_t()
        read = L.llama_state_seq_load_file(ctx, state.encode(), 0, room, n, ctypes.byref(count))
        check(read > 0 and count.value == n - 1, "the state holds %d tokens, not %d" % (count.value, n - 1))
        check(list(room[: n - 1]) == list(ids[: n - 1]), "the state is of other tokens")
        done = n - 1
    rest = ctypes.cast(ctypes.byref(ids, done * ctypes.sizeof(L.llama_token)), ctypes.POINTER(L.llama_token))
    if save:
        n -= 1
    check(L.llama_decode(ctx, L.llama_batch_get_one(rest, n - done)) == 0, "llama_decode failed")
    L.llama_get_logits_ith(ctx, -1)
    ns, cpu = time.perf_counter_ns() - begin, cpu_seconds() - cpu
    if save:
        check(L.llama_state_seq_save_file(ctx, state.encode(), 0, ids, n) > 0, "cannot save")
    n_vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    print(json.dumps({"ns": ns, "cpu_ns": cpu * 1e9, "id": best_id(ctx, n_vocab)}))


L.llama_log_set(quiet, None)
L.llama_backend_init()
mode, arguments = sys.argv[1], sys.argv[2:]
if mode == "info":
    print("llama-cpp-python %s, %s" % (L.__version__, L.llama_print_system_info().decode()))
elif mode == "tests":
    tests(*arguments)
elif mode == "start":
    start(*arguments)
elif mode == "save":
    start(*arguments, save=True)
else:
    start(*arguments)
