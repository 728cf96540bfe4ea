"""The rows of bench-peer: runs both arms in turns, prints the table. Called by scripts/bench-peer, which says how it is measured.

bench_peer.py WORK NAME VENV [NAME VENV] -- [ROW...]
"""

import json
import mmap
import os
import random
import re
import statistics
import subprocess
import sys
import time

BUILD = os.environ["AKV_BUILD"]
RUNS = int(os.environ.get("BENCH_PEER_RUNS", "5"))
THREADS = [int(t) for t in os.environ.get("BENCH_PEER_THREADS", "1,2").split(",")]
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMOL = TOP + "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
ARM = TOP + "/scripts/bench_peer_arm.py"
N_CTX = 2304  # the largest test of the engine, and room
RESTORED = 2000

# test -> prompt, gen, depth, least ratio against the peer. In this order a depth stands already when its test comes.
SMOL_TESTS = {
    "decode-0": (0, 64, 0, 1.3),
    "prefill-512": (512, 0, 0, 2.2),
    "decode-512": (0, 64, 512, 1.6),
    "prefill-2048": (2048, 0, 0, 1.9),
    "decode-2048": (0, 64, 2048, 2.5),
}
OTHER_TESTS = {"prefill": (512, 0, 0, 1.1), "decode": (0, 64, 0, 1.1)}
OTHERS = ["Q4_0", "Q8_0", "Q4_K", "Q6_K", "F16"]


def die(text):
    sys.exit("bench-peer: " + text)


def say(text):
    print("bench-peer: " + text, file=sys.stderr, flush=True)


def read_anew(path):
    """
    Have the file in the page cache as the first start of akv leaves it: in huge pages, where the system can. Both sides map it so. As it
    was written, it may lie in pieces of 4 KiB.
    """
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            try:
                m.madvise(mmap.MADV_HUGEPAGE)
            except (AttributeError, OSError):
                pass  # a Python or a kernel without them
            for at in range(0, len(m), 4096):
                m[at]


class Log:
    """Every result of every arm, a JSON line each."""

    def __init__(self, path):
        self.file = open(path, "w")

    def put(self, **row):
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()


# ---- arms that stay: engine tests ----


class Worker:
    def __init__(self, name, command, env=None):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        reply = self.process.stdout.readline()
        if not reply:
            die("%s ended" % self.name)
        return json.loads(reply)

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            die("%s: exit status %d" % (self.name, self.process.returncode))


class Akv:
    def __init__(self, model, threads_list, name="akv"):
        self.name = name
        env = dict(os.environ)
        if name == "akv native":
            del env["AKV_CPU"]
        self.workers = {
            t: Worker(name, [BUILD + "/akv-bench", "engine", "-", "-t", str(t), "-r", "1", "-o", "jsonl", "-m", model], env)
            for t in threads_list
        }

    def run(self, prompt, gen, depth, threads):
        test = ("tg%d" % gen if gen else "pp%d" % prompt) + ("@d%d" % depth if depth else "")
        row = self.workers[threads].ask(test)
        if (row["n_prompt"], row["n_gen"], row["n_depth"], row["n_threads"]) != (prompt, gen, depth, threads):
            die("akv-bench ran another test than %s" % test)
        return {"ns": row["samples_ns"][0], "cpu_ns": row["samples_cpu_ns"][0], "share": row["share_of_limit"]}

    warm_up = run  # each run has one of its own; this one fills the depth

    def close(self):
        for w in self.workers.values():
            w.close()


class Peer:
    def __init__(self, name, venv, model):
        self.name = name
        self.worker = Worker(name, [venv + "/bin/python", ARM, "tests", model, str(N_CTX)])

    def ask(self, kind, prompt, gen, depth, threads):
        return self.worker.ask(json.dumps({"test": kind, "prompt": prompt, "gen": gen, "depth": depth, "threads": threads}))

    def run(self, *test):
        return self.ask("run", *test)

    def warm_up(self, *test):
        return self.ask("warm-up", *test)

    def close(self):
        self.worker.close()


# ---- arms of a process each: to the first token ----


def first_byte(command, cache):
    """From fork to the first byte of output: ns, cpu_ns of the whole process, all of its output."""
    env = dict(os.environ, XDG_CACHE_HOME=cache)
    for key in ("AKV_STORE", "AKV_SALT_FILE", "AKV_MODEL"):
        env.pop(key, None)
    begin = time.perf_counter_ns()
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)
    out = process.stdout.read(1)
    ns = time.perf_counter_ns() - begin
    out += process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        die("%s: exit status %d" % (command[0], process.returncode))
    if not out:
        die("%s printed nothing" % command[0])
    return {"ns": ns, "cpu_ns": (usage.ru_utime + usage.ru_stime) * 1e9}, out


class Starts:
    """Processes that answer a prompt: akv-gen on token records, the peer on the same ids."""

    def __init__(self, work):
        self.work = work
        self.cache = work + "/cache"
        self.stores = {codec: "%s/store-%s" % (work, codec) for codec in ("planes", "raw")}
        subprocess.run(["rm", "-rf", *self.stores.values(), self.cache], check=True)
        with open(TOP + "/examples/demo/system.txt") as f:
            text = f.read() * 3
        record = subprocess.run(
            [BUILD + "/akv-tokenize", "-m", SMOL, "--raw"], input=text, capture_output=True, text=True, check=True
        ).stdout
        self.ids = json.loads(record)["tokens"]
        for n in (20, RESTORED, RESTORED + 1):
            ids = self.ids[:n]
            with open(self.path(n, "tok"), "w") as f:
                json.dump({"akv": "tokens/1", "id": "n%d" % n, "n": n, "tokens": ids, "gen": {"max_tokens": 1, "temperature": 0}}, f)
            with open(self.path(n, "ids"), "w") as f:
                json.dump(ids, f)

    def path(self, n, ending):
        return "%s/prompt-%d.%s" % (self.work, n, ending)

    def akv(self, n, threads, cached=None, codec="planes"):
        """akv-gen's first token of the first n ids; cached: how many must come from the store of codec, None: without a store."""
        stats = self.work + "/stats"
        if os.path.exists(stats):
            os.remove(stats)
        command = [BUILD + "/akv-gen", "-q", "-m", SMOL, "-@", str(threads), "--stats=" + stats]
        command += ["--no-store"] if cached is None else ["-s", self.stores[codec]]
        result, out = first_byte(command + [self.path(n, "tok")], self.cache)
        with open(stats) as f:
            st = json.load(f)
        if (st["cached_tokens"], st["prefilled_tokens"]) != (cached or 0, n - (cached or 0)):
            die("akv: %d of %d tokens came from the store, not %d" % (st["cached_tokens"], n, cached or 0))
        return result, out

    def fill_stores(self):
        for codec, store in self.stores.items():
            os.makedirs(store, 0o700)  # one that others may write to is not used
            with open(store + "/config", "w") as f:
                f.write("codec=%s\n" % codec)
            subprocess.run(
                [BUILD + "/akv-prefill", "-q", "-m", SMOL, "-s", store, "--save", "-o", "/dev/null", self.path(RESTORED, "tok")],
                env=dict(os.environ, XDG_CACHE_HOME=self.cache),
                check=True,
            )
        time.sleep(2.1)  # the digest of the weights is cached once it is older than two seconds

    def gets_through(self, venv):
        try:
            self.peer(venv, "start", 20, 1)
            return True
        except subprocess.CalledProcessError:
            return False

    def peer(self, venv, mode, n, threads):
        command = [venv + "/bin/python", ARM, mode, SMOL, self.path(n, "ids"), str(threads)]
        if mode != "start":
            command.append(self.work + "/state")
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


# ---- memory ----


def resident(pid, model):
    """Highest resident bytes of a process less those of the model's file."""
    with open("/proc/%d/status" % pid) as f:
        peak = int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1)) * 1024
    mapped, inside = 0, False
    with open("/proc/%d/smaps" % pid) as f:
        for line in f:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                inside = line.rstrip().endswith(os.path.realpath(model))
            elif inside and line.startswith("Rss:"):
                mapped += int(line.split()[1]) * 1024
    return peak - mapped


def memory(peers, threads):
    akv = Akv(SMOL, [threads])
    akv.run(16, 0, 0, threads)
    with open("/proc/%d/clear_refs" % akv.workers[threads].process.pid, "w") as f:
        f.write("5")  # forget the peak: akv-bench read 256 MiB to measure the machine
    akv.run(4095, 0, 0, threads)
    yield "akv", resident(akv.workers[threads].process.pid, SMOL)
    akv.close()
    for name, venv in peers:
        w = Worker(name, [venv + "/bin/python", ARM, "tests", SMOL, "4096"])
        base = w.ask(json.dumps({"test": "memory", "threads": threads}))["base_rss"]
        yield name, resident(w.process.pid, SMOL) - base
        w.close()


# ---- rows ----


def conditions(peers):
    """What a reader must know to judge the figures."""
    with open("/proc/cpuinfo") as f:
        cpu = re.search(r"model name\s*:\s*(.*)", f.read())
    version = subprocess.run([BUILD + "/akv-bench", "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    yield "%s, %d processors, load %.1f; medians of %d runs, arms in turns" % (
        cpu.group(1) if cpu else "?", os.cpu_count(), os.getloadavg()[0], RUNS)
    yield "akv %s: %s" % (version, os.environ["AKV_CPU"])
    for name, venv in peers:
        info = subprocess.run([venv + "/bin/python", ARM, "info"], capture_output=True, text=True, check=True).stdout.strip()
        if name == peers[0][0] and "AVX512" in info:
            die("%s is compiled for more than AVX2: %s" % (name, info))
        yield "%s: %s" % (name, info)


class Table:
    def __init__(self, peers, log):
        for line in conditions(peers):
            print("- " + line)
        print()
        self.names = [name for name, _ in peers]
        self.log = log
        self.rows = []
        print("| work | threads | akv | %s | ratio | CPU ratio | target |" % " | ".join(self.names))
        print("|---|--:|--:|%s--:|--:|---|" % ("--:|" * len(self.names)), flush=True)

    def put(self, work, threads, akv, theirs, ratio, cpu, target, note=""):
        met = "" if target is None else "%s ≥ %g×" % ("met:" if ratio >= target else "MISSED:", target)
        print(
            "| %s | %s | %s | %s | %.2f× | %s | %s%s |"
            % (work, threads, akv, " | ".join(theirs), ratio, "%.2f×" % cpu if cpu else "", met, note),
            flush=True,
        )


def median_ratio(akv, theirs, key):
    """Of the rounds' own ratios: how many times as long as akv the other took."""
    return statistics.median(t[key] / a[key] for a, t in zip(akv, theirs))


def in_turns(arms):
    """RUNS rounds over arms (name -> function), in another order each, for an arm is slower after one that took long: name -> results."""
    results = {name: [] for name in arms}
    order = random.Random(1)
    for _ in range(RUNS):
        for name in order.sample(list(arms), len(arms)):
            results[name].append(arms[name]())
    return results


def engine_rows(table, model, tests, label, peers, wanted):
    chosen = [(n, t) for n in tests for t in THREADS if wanted((label + "-" if label else "") + n)]
    if not chosen:
        return
    read_anew(model)
    arms = [Akv(model, THREADS)] + [Peer(name, venv, model) for name, venv in peers]
    if len(peers) > 1:
        arms.append(Akv(model, THREADS, "akv native"))
    results = {}
    for name, t in chosen:
        for arm in arms:
            table.log.put(row=label + name, threads=t, arm=arm.name, warm_up=arm.warm_up(*tests[name][:3], t))
    for i in range(RUNS):
        say("%s round %d of %d" % (label or "SmolLM2 Q4_1", i + 1, RUNS))
        for name, t in chosen:
            for arm in arms[i % len(arms) :] + arms[: i % len(arms)]:
                r = arm.run(*tests[name][:3], t)
                table.log.put(row=label + name, threads=t, arm=arm.name, round=i, **r)
                results.setdefault((name, t, arm.name), []).append(r)
    for arm in arms:
        arm.close()
    for name, t in chosen:
        prompt, gen, depth, target = tests[name]
        rates = {a.name: statistics.median((prompt + gen) * 1e9 / r["ns"] for r in results[name, t, a.name]) for a in arms}
        ours, first = results[name, t, "akv"], results[name, t, peers[0][0]]
        share = statistics.median(r["share"] for r in ours)
        least = {"prefill-512": 0.6, "decode-0": 0.5}.get(name) if t == 1 and not label else None
        note = "; %.0f %% of the machine's limit" % (share * 100)
        if least:
            note += " (%s ≥ %.0f %%)" % ("met:" if share >= least else "MISSED:", least * 100)
        if len(peers) > 1:
            native = median_ratio(results[name, t, "akv native"], results[name, t, peers[1][0]], "ns")
            note += "; akv native %.1f, %.2f× native" % (rates["akv native"], native)
        flash = first[0].get("flash")
        table.put(
            "%s %s tokens/s" % (label or "Q4_1", name),
            t,
            "%.1f" % rates["akv"],
            ["%.1f" % rates[n] for n in table.names],
            median_ratio(ours, first, "ns"),
            median_ratio(ours, first, "cpu_ns"),
            target,
            note + ("; peer with flash attention" if flash else "; peer without flash attention"),
        )
    for name in tests:
        if name.startswith("prefill") and not label and (name, 1) in chosen and (name, 2) in chosen:
            one, two = results[name, 1, "akv"], results[name, 2, "akv"]
            theirs = [results[name, t, peers[0][0]] for t in (1, 2)]
            ratio = median_ratio(two, one, "ns")
            table.put(
                name + " 1 → 2 threads", "", "%.2f×" % ratio, ["%.2f×" % median_ratio(theirs[1], theirs[0], "ns")] + [""] * (len(peers) - 1),
                ratio, None, 1.85,
            )


def milliseconds(results):
    return "%.1f ms" % (statistics.median(r["ns"] for r in results) * 1e-6)


def start_rows(table, s, peers, wanted):
    for t in THREADS:
        if not wanted("start"):
            break
        arms = {"akv": lambda: s.akv(20, t)[0]}
        arms.update({n: lambda v=v: s.peer(v, "start", 20, t) for n, v in peers})
        put_start(table, "start to first token, 20 tokens", t, in_turns(arms), peers, 3)
    for t in THREADS:
        if not wanted("restored"):
            break
        n = RESTORED + 1
        for name, venv in peers:
            s.peer(venv, "save", n, t)
        if not os.path.exists(s.stores["raw"]):
            s.fill_stores()
        s.akv(n, t, RESTORED)  # caches the digest
        outs = set()

        def ours(cached, codec="planes"):
            result, out = s.akv(n, t, cached, codec)
            outs.add(out)
            return result

        arms = {"akv": lambda: ours(RESTORED), "akv raw": lambda: ours(RESTORED, "raw")}
        arms.update({name: lambda v=v: s.peer(v, "restore", n, t) for name, v in peers})
        arms["akv cold"] = lambda: ours(None)
        results = in_turns(arms)
        if len(outs) != 1:
            die("akv's cold and restored replies differ: %s" % " and ".join(repr(o) for o in outs))
        for i, r in enumerate(results["akv cold"]):
            table.log.put(row="2,001 tokens, none restored", threads=t, arm="akv cold", round=i, **r)
        for arm, what in ("akv", ""), ("akv raw", ", from a store with codec=raw"):
            put_start(table, "start to first token, 2,000 of 2,001 tokens restored" + what, t, results, peers, 4, arm)
            table.put(
                "the same against akv's own cold prefill (%s)" % milliseconds(results["akv cold"]),
                t,
                milliseconds(results[arm]),
                [""] * len(peers),
                median_ratio(results[arm], results["akv cold"], "ns"),
                median_ratio(results[arm], results["akv cold"], "cpu_ns"),
                100,
            )


def put_start(table, work, t, results, peers, target, ours="akv"):
    for name in [ours] + [name for name in results if not name.startswith("akv")]:
        for i, r in enumerate(results[name]):
            table.log.put(row=work, threads=t, arm=name, round=i, **r)
    first = results[peers[0][0]]
    table.put(
        work,
        t,
        milliseconds(results[ours]),
        [milliseconds(results[n]) for n, _ in peers],
        median_ratio(results[ours], first, "ns"),
        median_ratio(results[ours], first, "cpu_ns"),
        target,
    )


def memory_row(table, peers, wanted):
    if not wanted("memory"):
        return
    t = max(THREADS)
    sizes = dict(memory(peers, t))
    table.log.put(row="memory", threads=t, bytes=sizes)
    table.put(
        "peak memory beyond the model, 4,096 tokens",
        t,
        "%.0f MiB" % (sizes["akv"] / 1048576),
        ["%.0f MiB" % (sizes[n] / 1048576) for n, _ in peers],
        sizes[peers[0][0]] / sizes["akv"],
        None,
        1 / 0.8,
    )


def main():
    work, rest = sys.argv[1], sys.argv[2:]
    at = rest.index("--")
    peers = list(zip(rest[:at:2], rest[1:at:2]))
    rows = rest[at + 1 :]

    def wanted(name):
        return not rows or any(name.startswith(r) for r in rows)

    read_anew(SMOL)
    starts = Starts(work)
    for name, venv in peers[1:]:
        if not starts.gets_through(venv):
            say("%s: that build of the peer dies on this processor; its figures are left out" % name)
            peers = peers[:1]
    table = Table(peers, Log(work + "/rows.jsonl"))
    engine_rows(table, SMOL, SMOL_TESTS, "", peers, wanted)
    start_rows(table, starts, peers, wanted)
    memory_row(table, peers, wanted)
    for dtype in OTHERS:
        engine_rows(table, "%s/models/%s.gguf" % (work, dtype), OTHER_TESTS, dtype, peers, wanted)
    gemma = os.environ.get("BENCH_PEER_GEMMA")
    if gemma:
        engine_rows(table, gemma, OTHER_TESTS, "gemma-3-270m-Q4_K_M", peers, wanted)
    elif wanted("gemma"):
        say("gemma-3-270m is not here: no rows of it")


main()
