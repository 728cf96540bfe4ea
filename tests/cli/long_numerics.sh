# akv-numerics(7) alone is enough to compute the same bits: a program written from the page against the engine.
. "$(dirname "$0")/../lib.sh"

cat >spec.py <<'PY'
"""KV bytes, log-probabilities and draws of a small model, from akv-numerics(7); slowly."""
import json, math, struct, sys
from fractions import Fraction
from struct import pack, unpack, unpack_from

# ---- arithmetic

def f32(x):
    return unpack('<f', pack('<f', x))[0]

def nearest(x):
    """A fraction to f32, ties to even, subnormals kept."""
    a = abs(x)
    e = a.numerator.bit_length() - a.denominator.bit_length()
    e = max(e - (a < Fraction(2) ** e), -126)
    unit = Fraction(2) ** (e - 23)
    return math.copysign(float(round(a / unit) * unit), x) # Python rounds ties to even

def fma(a, b, c):
    p = a * b # exact in double
    t = p + c
    u = unpack('<Q', pack('<d', t))[0]
    if u & 0x1fffffff != 0x10000000 and abs(t) >= 2.0 ** -126 or t == 0:
        return f32(t) # not near a middle between floats: the second rounding is harmless
    return nearest(Fraction(a) * Fraction(b) + Fraction(c))

def add(a, b):
    return f32(a + b)

def mul(a, b):
    return f32(a * b)

def div(a, b):
    return f32(a / b)

def rne(x):
    return float(round(x))

H = float.fromhex

def exp(x):
    x = x if x > -87 else -87.0
    x = x if x < 88 else 88.0
    n = rne(mul(x, H('0x1.715476p+0')))
    r = fma(-n, H('0x1.62e430p-1'), x)
    r = fma(-n, H('-0x1.05c610p-29'), r)
    p = fma(H('0x1.6ffd58p-10'), r, H('0x1.12585ep-7'))
    for c in ('0x1.5552fep-5', '0x1.555466p-3', '0x1.000000p-1', '1', '1'):
        p = fma(p, r, H(c))
    return f32(p * 2.0 ** n)

def term(x):
    return 0.0 if x < -87 else exp(x)

def horner(coefficients, x):
    p = coefficients[0]
    for c in coefficients[1:]:
        p = p * x + c
    return p

F = math.factorial
LN2_HI, LN2_LO, LOG2E = H('0x1.62e42feep-1'), H('0x1.a39ef35793c76p-33'), H('0x1.71547652b82fep+0')

def e_reduced(r):
    return horner([1.0 / F(k) for k in range(14, 2, -1)] + [0.5], r) * r * r + r + 1.0

def dexp(x):
    if x < -708:
        return 0.0
    x = x if x < 709 else 709.0
    n = rne(x * LOG2E)
    return e_reduced((x - n * LN2_HI) - n * LN2_LO) * 2.0 ** n

def dexp2(x):
    n = rne(x)
    return e_reduced((x - n) * H('0x1.62e42fefa39efp-1')) * 2.0 ** n

def split(x):
    m, k = math.frexp(x) # exact
    m, k = m * 2, k - 1
    if m >= H('0x1.6a09e667f3bcdp+0'):
        m, k = m / 2, k + 1
    s = (m - 1) / (m + 1)
    z = s * s
    return k, 2 * s + 2 * s * (horner([1.0 / j for j in range(23, 1, -2)], z) * z)

def dlog(x):
    k, l = split(x)
    return k * LN2_HI + (k * LN2_LO + l)

def dlog2(x):
    k, l = split(x)
    return k + l * LOG2E

def cos_sin(x):
    n = rne(x * H('0x1.45f306dc9c883p-1'))
    r = ((x - n * H('0x1.921fb544p+0')) - n * H('0x1.0b4611a6p-34')) - n * H('0x1.3198a2e037073p-69')
    z = r * r
    s = horner([(-1) ** (j // 2) / F(j) for j in range(19, 1, -2)], z) * z * r + r
    c = horner([(-1) ** (j // 2) / F(j) for j in range(18, 0, -2)], z) * z + 1
    return [(c, s), (-s, c), (-c, -s), (s, -c)][int(n) % 4]

# ---- a GGUF file

class Model:
    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    TYPES = {0: ('F32', 1, 4), 1: ('F16', 1, 2), 2: ('Q4_0', 32, 18), 3: ('Q4_1', 32, 20), 6: ('Q5_0', 32, 22), 7: ('Q5_1', 32, 24),
             8: ('Q8_0', 32, 34), 10: ('Q2_K', 256, 84), 11: ('Q3_K', 256, 110), 12: ('Q4_K', 256, 144), 13: ('Q5_K', 256, 176),
             14: ('Q6_K', 256, 210), 20: ('IQ4_NL', 32, 18), 23: ('IQ4_XS', 256, 136), 30: ('BF16', 1, 2), 39: ('MXFP4', 32, 17)}

    def __init__(self, path):
        self.b, self.at = open(path, 'rb').read(), 8
        n_tensors, n_keys = self.num('<Q'), self.num('<Q')
        self.keys, self.tensors = {}, {}
        for _ in range(n_keys):
            name, kind = self.string(), self.num('<I')
            self.keys[name] = self.at
            self.skip(kind)
        for _ in range(n_tensors):
            name = self.string()
            dims = [self.num('<Q') for _ in range(self.num('<I'))]
            self.tensors[name] = dims, self.TYPES[self.num('<I')], self.num('<Q')
        self.base = (self.at + 31) // 32 * 32
        self.arch = self.text('general.architecture', '')

    def num(self, fmt):
        self.at += struct.calcsize(fmt)
        return unpack_from(fmt, self.b, self.at - struct.calcsize(fmt))[0]

    def string(self):
        n = self.num('<Q')
        self.at += n
        return self.b[self.at - n:self.at].decode('latin-1')

    def skip(self, kind):
        if kind == 8:
            self.string()
        elif kind == 9:
            of, n = self.num('<I'), self.num('<Q')
            for _ in range(n):
                self.skip(of)
        else:
            self.at += self.SIZES[kind]

    def hp(self, name, fmt='<I', default=None):
        at = self.keys.get(self.arch + '.' + name)
        return default if at is None else unpack_from(fmt, self.b, at)[0]

    def text(self, name, default):
        if name not in self.keys:
            return default
        self.at = self.keys[name]
        return self.string()

IQ4 = -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
MXFP4 = 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
PLAIN, ADDED, SUBTRACTED = (1, 1), ('Q4_1', 'Q5_1'), ('Q2_K', 'Q4_K', 'Q5_K')

def half(byte, high):
    return byte >> 4 if high else byte & 15

def nibbles(b):
    return [x & 15 for x in b[:16]] + [x >> 4 for x in b[:16]]

def small(kind, b):
    """A block of 32: d, m, s and ms of its halves, w."""
    d, m, n = unpack('<e', b[:2])[0], 0.0, 2
    if kind == 'MXFP4':
        d, n = 2.0 ** (b[0] - 128), 1
    if kind in ADDED:
        m, n = unpack('<e', b[2:4])[0], 4
    if kind == 'Q8_0':
        return d, m, PLAIN, None, unpack('<32b', b[2:])
    if kind in ('Q5_0', 'Q5_1'):
        bits = unpack_from('<I', b, n)[0]
        w = [x + 16 * (bits >> i & 1) for i, x in enumerate(nibbles(b[n + 4:]))]
    else:
        w = nibbles(b[n:])
    book = {'IQ4_NL': IQ4, 'MXFP4': MXFP4}.get(kind)
    w = [book[x] for x in w] if book else [x - {'Q4_0': 8, 'Q5_0': 16}.get(kind, 0) for x in w]
    return d, m, PLAIN, None, w

def of_super(kind, b, i):
    """Block i of a super-block."""
    f16 = lambda at: unpack_from('<e', b, at)[0]
    pairs = lambda at: [b[at + 32 * (i // 4) + l] >> 2 * (i % 4) & 3 for l in range(32)]
    bits = lambda at: [b[at + l] >> i & 1 for l in range(32)]
    subs = 2 * i, 2 * i + 1
    if kind == 'Q2_K':
        return f16(80), f16(82), [b[j] & 15 for j in subs], [b[j] >> 4 for j in subs], pairs(16)
    if kind == 'Q3_K':
        s = [(half(b[96 + j % 8], j >= 8) | (b[104 + j % 4] >> 2 * (j // 4) & 3) << 4) - 32 for j in subs]
        return f16(108), 0.0, s, None, [p + 4 * h - 4 for p, h in zip(pairs(32), bits(0))]
    if kind in ('Q4_K', 'Q5_K'):
        sc = b[4:16]
        if i < 4:
            s, ms = sc[i] & 63, sc[i + 4] & 63
        else:
            s, ms = sc[i + 4] & 15 | sc[i - 4] >> 6 << 4, sc[i + 4] >> 4 | sc[i] >> 6 << 4
        at = 16 if kind == 'Q4_K' else 48
        w = [half(b[at + 32 * (i // 2) + l], i % 2) for l in range(32)]
        if kind == 'Q5_K':
            w = [x + 16 * h for x, h in zip(w, bits(16))]
        return f16(0), f16(2), (s, s), (ms, ms), w
    if kind == 'Q6_K':
        low = [half(b[64 * (i // 4) + 32 * (i % 2) + l], i % 4 >= 2) for l in range(32)]
        return f16(208), 0.0, [unpack_from('<b', b, 192 + j)[0] for j in subs], None, [
            x + 16 * p - 32 for x, p in zip(low, pairs(128))]
    s = (half(b[4 + i // 2], i % 2) | (unpack_from('<H', b, 2)[0] >> 2 * i & 3) << 4) - 32
    return f16(0), 0.0, (s, s), None, [IQ4[x] for x in nibbles(b[8 + 16 * i:])]

class Matrix:
    def __init__(self, m, name):
        dims, (self.kind, block, size), offset = m.tensors[name]
        self.quantised, n = block > 1, dims[0] // block
        at, self.rows = m.base + offset, []
        for r in range((dims + [1])[1]):
            parts = [m.b[at + (r * n + i) * size:][:size] for i in range(n)]
            if block == 256:
                self.rows.append([of_super(self.kind, b, i) for b in parts for i in range(8)])
            else:
                self.rows.append([small(self.kind, b) if block > 1 else self.number(b) for b in parts])

    def number(self, b):
        return unpack('<e', b)[0] if self.kind == 'F16' else unpack('<f', b if self.kind == 'F32' else b'\0\0' + b)[0]

    def decoded(self, r):
        if not self.quantised:
            return self.rows[r]
        out = []
        for d, m, s, ms, w in self.rows[r]:
            for i, x in enumerate(w):
                y = mul(mul(d, s[i // 16]), x)
                if self.kind in ADDED:
                    y = add(y, m)
                if self.kind in SUBTRACTED:
                    y = add(y, -mul(m, ms[i // 16]))
                out.append(y)
        return out

    def times(self, x):
        if not self.quantised:
            out = []
            for row in self.rows:
                acc = 0.0
                for w, v in zip(row, x):
                    acc = fma(w, v, acc)
                out.append(acc)
            return out
        blocks = quantise(x)
        return [self.dot(row, blocks) for row in self.rows]

    def dot(self, row, blocks):
        acc = 0.0
        for (d, m, s, ms, w), (da, q) in zip(row, blocks):
            acc = fma(mul(d, da), float(sum(s[i // 16] * w[i] * q[i] for i in range(32))), acc)
            if self.kind in ADDED:
                acc = fma(m, mul(da, float(sum(q))), acc)
            if self.kind in SUBTRACTED:
                acc = fma(-mul(m, da), float(sum(ms[i // 16] * q[i] for i in range(32))), acc)
        return acc

def quantise(x):
    out = []
    for at in range(0, len(x), 32):
        v = x[at:at + 32]
        amax = max(map(abs, v))
        d = div(amax, 127.0) if amax >= 2.0 ** -100 else 0.0
        out.append((d, [int(rne(div(a, d))) if d else 0 for a in v]))
    return out

# ---- the model

def tree(s):
    for half in (8, 4, 2, 1):
        for i in range(half):
            s[i] = add(s[i], s[i + half])
    return s[0]

def norm(x, w, eps):
    s = [0.0] * 16
    for i, v in enumerate(x):
        s[i % 16] = fma(v, v, s[i % 16])
    root = f32(math.sqrt(add(div(tree(s), float(len(x))), eps)))
    return [mul(div(v, root), c) for v, c in zip(x, w)]

def chunk(q, keys, values, scale, at, to):
    """Over the keys at <= j < to."""
    scores = []
    for k in keys[at:to]:
        s = 0.0
        for a, b in zip(q, k):
            s = fma(a, b, s)
        scores.append(mul(s, scale))
    top = -math.inf
    for s in scores:
        top = s if s > top else top
    lanes, o = [0.0] * 16, [0.0] * len(values[0])
    for j, s in enumerate(scores, at):
        e = term(add(s, -top))
        lanes[j % 16] = add(lanes[j % 16], e)
        o = [fma(e, v, acc) for v, acc in zip(values[j], o)]
    return top, tree(lanes), o

def attend(q, keys, values, scale, first):
    n, m = len(keys), None
    for at in range(first // 256 * 256, n, 256):
        mc, lc, oc = chunk(q, keys, values, scale, max(at, first), min(at + 256, n))
        if m is None:
            m, l, o = mc, lc, oc
            continue
        top = m if m > mc else mc
        a, b = term(add(m, -top)), term(add(mc, -top))
        m, l = top, fma(l, a, mul(lc, b))
        o = [fma(x, a, mul(y, b)) for x, y in zip(o, oc)]
    inverse = div(1.0, l)
    return [mul(x, inverse) for x in o]

def silu(x):
    return div(x, add(1.0, exp(-x)))

def gelu(x):
    t = fma(mul(x, x), H('0x1.2444f2p-4'), H('0x1.988454p+0'))
    return div(x, add(1.0, exp(-mul(x, t))))

def soft(x, c):
    y = div(x, c)
    t = exp(-2.0 * abs(y))
    r = div(add(1.0, -t), add(1.0, t))
    return mul(c, -r if y < 0 else r)

class Rope:
    """Frequencies, and what cos and sin are multiplied by."""
    def __init__(self, m, d, base, scaled):
        log2b = dlog2(base)
        self.d, self.a = d, 1.0
        self.freq = [dexp2(-(2.0 * i / d) * log2b) for i in range(d // 2)]
        self.style = 'pairs' if m.arch == 'llama' else 'halves'
        if scaled:
            self.scale(m, base)

    def scale(self, m, b):
        d, get = self.d, lambda name, default: m.hp('rope.scaling.' + name, '<f', default)
        kind = m.text(m.arch + '.rope.scaling.type', 'linear')
        n = get('factor', m.hp('rope.scale_linear', '<f', 1.0)) or 1.0
        self.a, ext = get('attn_factor', 1.0), get('yarn_ext_factor', 1.0)
        if m.arch == 'llama' and 'rope_freqs.weight' in m.tensors:
            self.freq = [f / r for f, r in zip(self.freq, Matrix(m, 'rope_freqs.weight').rows[0])]
        if kind == 'none':
            return
        if kind == 'yarn':
            self.a = mul(self.a, get('yarn_attn_factor', 1.0))
        if kind == 'linear' or ext == 0:
            self.freq = [f / n for f in self.freq]
            return
        ctx = m.hp('rope.scaling.original_context_length', '<I', m.hp('context_length'))
        D = lambda t: d * dlog(ctx / (t * H('0x1.921fb54442d18p+2'))) / (2 * dlog(b))
        low = max(math.floor(D(get('yarn_beta_fast', 32.0))), 0)
        r = max(min(math.ceil(D(get('yarn_beta_slow', 1.0))), d - 1) - low, 0.001)
        for i, f in enumerate(self.freq):
            keep = (1 - min(max((i - low) / r, 0.0), 1.0)) * ext
            self.freq[i] = f / n * (1 - keep) + f * keep
        self.a *= 1 + 0.1 * dlog(n)

    def turns(self, pos):
        return [tuple(f32(x * self.a) for x in cos_sin(pos * f)) for f in self.freq]

    def rotate(self, x, turns):
        x = list(x)
        for i, (c, s) in enumerate(turns):
            j, k = (2 * i, 2 * i + 1) if self.style == 'pairs' else (i, i + self.d // 2)
            a, b = x[j], x[k]
            x[j], x[k] = fma(a, c, -mul(b, s)), fma(a, s, mul(b, c))
        return x

class Run:
    """K and V of all ids, [layer][kv head][position][dimension], and the logits after the last."""
    def __init__(self, m, ids, kv):
        heads, kv_heads, layers = m.hp('attention.head_count'), m.hp('attention.head_count_kv'), m.hp('block_count')
        eps, n_embd = m.hp('attention.layer_norm_rms_epsilon', '<f'), m.hp('embedding_length')
        dk, dv = (m.hp('attention.%s_length' % n, '<I', n_embd // heads) for n in ('key', 'value'))
        gemma = m.arch == 'gemma3'
        window = m.hp('attention.sliding_window', '<I', 0) if gemma else 0
        every = m.hp('attention.sliding_window_pattern', '<I', 6)
        d = m.hp('rope.dimension_count', '<I', dk)
        ropes = [Rope(m, d, m.hp('rope.freq_base', '<f'), True), Rope(m, d, m.hp('rope.freq_base_swa', '<f', 10000.0), False)]
        fmt = '<e' if kv == 'f16' else '<f'
        scale = div(1.0, f32(math.sqrt(n_embd // heads if gemma and layers == 62 else dk)))
        weight = lambda name: Matrix(m, name + '.weight')
        vector = lambda name: Matrix(m, name).rows[0] if name in m.tensors else None
        embd, out_norm = weight('token_embd'), vector('output_norm.weight')
        output = weight('output') if 'output.weight' in m.tensors else embd
        names = 'attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down'.split()
        vectors = ('attn_norm.weight attn_q.bias attn_k.bias attn_v.bias attn_q_norm.weight attn_k_norm.weight '
                   'post_attention_norm.weight ffn_norm.weight post_ffw_norm.weight').split()
        parts = [([weight('blk.%d.%s' % (l, n)) for n in names], [vector('blk.%d.%s' % (l, n)) for n in vectors])
                 for l in range(layers)]
        self.k = [[[] for _ in range(kv_heads)] for _ in range(layers)]
        self.v = [[[] for _ in range(kv_heads)] for _ in range(layers)]

        def plus(x, y):
            return [add(a, b) for a, b in zip(x, y)] if y else x

        def normed(x, w):
            return norm(x, w, eps) if w else x

        for pos, token in enumerate(ids):
            x = embd.decoded(token)
            if gemma:
                x = [mul(a, f32(math.sqrt(n_embd))) for a in x]
            turns = [r.turns(pos) for r in ropes]
            for l, ((wq, wk, wv, wo, gate, up, down), (an, bq, bk, bv, qn, kn, pan, fn, pfn)) in enumerate(parts):
                local = window > 0 and (every == 0 or l % every != every - 1)
                turn = lambda y: ropes[local].rotate(y, turns[local])
                h = norm(x, an, eps)
                q, k, v = plus(wq.times(h), bq), plus(wk.times(h), bk), plus(wv.times(h), bv)
                for j in range(kv_heads):
                    self.k[l][j].append([unpack(fmt, pack(fmt, a))[0] for a in turn(normed(k[j * dk:(j + 1) * dk], kn))])
                    self.v[l][j].append([unpack(fmt, pack(fmt, a))[0] for a in v[j * dv:(j + 1) * dv]])
                if l + 1 == layers and pos + 1 < len(ids):
                    break # only the logits are left, and nobody asks for them
                a = []
                for head in range(heads):
                    j = head // (heads // kv_heads)
                    query = turn(normed(q[head * dk:(head + 1) * dk], qn))
                    a += attend(query, self.k[l][j], self.v[l][j], scale, max(0, pos - window + 1) if local else 0)
                x = plus(x, normed(wo.times(a), pan))
                h = norm(x, fn, eps)
                act = gelu if gemma else silu
                g = [mul(act(a), b) for a, b in zip(gate.times(h), up.times(h))]
                x = plus(x, normed(down.times(g), pfn))
        self.logits = output.times(norm(x, out_norm, eps))
        cap = m.hp('final_logit_softcapping', '<f', 0.0) if gemma else 0.0
        if cap:
            self.logits = [soft(a, cap) for a in self.logits]

    def bytes(self, kv):
        out, fmt = b'', '<e' if kv == 'f16' else '<f'
        for at in range(0, len(self.k[0][0]), 64):
            for k, v in zip(self.k, self.v):
                for kh, vh in zip(k, v):
                    kp, vp = kh[at:at + 64], vh[at:at + 64]
                    out += b''.join(pack(fmt, row[d]) for d in range(len(kp[0])) for row in kp)
                    out += b''.join(pack(fmt, a) for row in vp for a in row)
        return out

# ---- sampling

def order(logits):
    return sorted(range(len(logits)), key=lambda i: (-logits[i], i))

def draw(logits, history, i, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.0, seed=0):
    logits = list(logits)
    if repeat_penalty != 1:
        for t in set(history):
            logits[t] = f32(logits[t] / repeat_penalty if logits[t] > 0 else logits[t] * repeat_penalty)
    ids = order(logits)
    if temperature == 0:
        return ids[0]
    best = logits[ids[0]]
    ids = ids[:top_k] if top_k else ids
    if top_p < 1 or min_p > 0:
        w = [dexp(logits[t] - best) for t in ids]
        total, n, mass = 0.0, len(ids), 0.0
        for a in w:
            total += a
        if top_p < 1:
            n = 0
            while n < len(ids) and mass < top_p * total:
                mass += w[n]
                n += 1
        while n > 1 and w[n - 1] < min_p:
            n -= 1
        ids = ids[:n]
    w = [dexp((logits[t] - best) / temperature) for t in ids]
    total = mass = 0.0
    for a in w:
        total += a
    M = (1 << 64) - 1
    z = seed + (i + 1) * 0x9e3779b97f4a7c15 & M
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & M
    z = (z ^ z >> 27) * 0x94d049bb133111eb & M
    u = ((z ^ z >> 31) >> 11) * 2.0 ** -53
    for t, a in zip(ids, w):
        mass += a
        if mass > u * total:
            return t
    return ids[-1]

def logprob(logits, t):
    ids, total = order(logits), 0.0
    for i in ids:
        total += dexp(logits[i] - logits[ids[0]])
    return logits[t] - (logits[ids[0]] + dlog(total))

def main(what, path, record, kv, *more):
    m, ids = Model(path), json.load(open(record))['tokens']
    if what == 'kv':
        sys.stdout.buffer.write(Run(m, ids, kv).bytes(kv))
        return
    how, reply = json.loads(more[0]), json.load(open(more[1]))
    for i, got in enumerate(reply['logprobs']): # what the engine drew, one after the other
        logits = Run(m, ids, kv).logits
        want = draw(logits, ids, i, **how)
        assert got['id'] == want, 'draw %d is %d, it should be %d' % (i, got['id'], want)
        for t, value in [(want, got['logprob'])] + [(c['id'], c['logprob']) for c in got['top']]:
            assert '%.9g' % logprob(logits, t) == '%.9g' % value, 'log-probability of %d after %d draws' % (t, i)
        ids.append(want)
    print(len(reply['logprobs']), 'draws')

main(*sys.argv[1:])
PY

# model DTYPE LAYERS HEADS KV_HEADS FF [OPTION...]: of heads of 32 dimensions
model() {
    t_run 0 "$AKV_BUILD/tests/mkmodel" --dtype "$1" --layers "$2" --width $((32 * $3)) --heads "$3" --kv-heads "$4" --ff "$5" \
        "${@:6}" -o model.gguf
}

# The KV bytes of a record, computed by both, with f16 and f32 KV.
same_kv() {
    local kv
    for kv in f16 f32; do
        t_run 0 akv-prefill --kv $kv -o run.akv record
        t_run 0 akv-inspect --raw -o engine run.akv
        t_run 0 python3 spec.py kv model.gguf record $kv
        t_out_is engine
    done
}

# The record's log-probabilities and greedy draws.
same_logits() {
    t_sh 0 "akv-gen -n 2 --logprobs 4 --json record >reply"
    t_run 0 python3 spec.py gen model.gguf record f16 '{}' reply
}

text='On the ninth of March the wind came from the north, and 3 ships passed before midnight.'
export AKV_MODEL=model.gguf
for dtype in f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 iq4_nl mxfp4; do
    if t_begin "$dtype weights: the KV bytes are those of akv-numerics(7), f16 and f32 KV" tiny python3; then
        model $dtype 3 2 1 64
        t_sh 0 "akv-tokenize --raw <<<'${text:0:20}' >record"
        same_kv
    fi
done
for dtype in q2_k q3_k q4_k q5_k q6_k iq4_xs; do
    if t_begin "$dtype weights: the same, in super-blocks" tiny python3; then
        model $dtype 2 8 1 256
        t_sh 0 "akv-tokenize --raw <<<'${text:0:6}' >record"
        same_kv
        same_logits
    fi
done
while read -r what options; do
    if t_begin "$what: KV bytes and logits are those of akv-numerics(7)" tiny python3; then
        # shellcheck disable=SC2086 # a list of options
        model q8_0 4 2 1 64 $options
        t_sh 0 "akv-tokenize --raw <<<'${text:0:20}' >record"
        same_kv
        same_logits
    fi
done <<'END'
qwen2 --arch qwen2
qwen3 --arch qwen3 --head-dim 64
gemma3 --arch gemma3 --head-dim 64 --window 3 --pattern 3 --softcap 2
gemma3_without_windows --arch gemma3 --pattern 1 --window 4
linear_scaling --rope linear
yarn --rope yarn --head-dim 64
yarn_and_windows --arch gemma3 --rope yarn --window 2 --pattern 2
rope_factors --rope factors
END
if t_begin "gemma3 of 62 layers has another scale of attention" tiny python3; then
    model q8_0 62 1 1 32 --arch gemma3 --head-dim 64 --window 2
    t_sh 0 "akv-tokenize --raw <<<'${text:0:5}' >record"
    same_kv
fi
if t_begin "over more than one chunk of attention" tiny python3 jq; then
    model q8_0 2 1 1 32
    t_sh 0 "akv-tokenize --raw <<<'$text $text $text $text $text $text' | jq -c '{akv, id, tokens: .tokens[:270], n: 270}' >record"
    same_kv
fi
if t_begin "a window that begins inside a chunk and ends in the next" tiny python3 jq; then
    model q8_0 2 1 1 32 --arch gemma3 --window 20 --pattern 2
    t_sh 0 "jq -c '{akv, id, tokens: .tokens[:268], n: 268}' record >short && mv short record"
    same_kv
fi
if t_begin "log-probabilities and draws under every setting" tiny python3 jq; then
    model q4_1 1 1 1 32
    t_sh 0 "akv-tokenize --raw <<<'${text:0:20}' >record"
    for how in '{}' '{"temperature":0.8,"seed":1}' '{"temperature":1.5,"top_k":5,"seed":2}' '{"temperature":1,"top_p":0.6,"seed":3}' \
        '{"temperature":2,"min_p":0.05,"seed":4}' '{"repeat_penalty":1.7}' \
        '{"temperature":0.9,"top_k":40,"top_p":0.9,"min_p":0.02,"repeat_penalty":1.2,"seed":123456789012345}'; do
        t_sh 0 "jq -c --argjson how '$how' '.gen = \$how' record | akv-gen -n 6 --logprobs 4 --json >reply"
        t_run 0 python3 spec.py gen model.gguf record f16 "$how" reply
    done
fi
t_end
