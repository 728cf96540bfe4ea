# The formats, read by a program that knows nothing but the manual: akv-stream(5), akv-tokens(5) and akv-store(5) are enough.
. "$(dirname "$0")/../lib.sh"

cat >reader.py <<'PY'
"""A reader of akv's formats, written from the manual pages. Exits 3 or 4 with the reason where they say that one must refuse."""
import functools, hashlib, json, os, re, struct, subprocess, sys
from struct import pack, unpack_from

class Refuse(Exception):
    pass

def need(ok, status, why):
    if not ok:
        raise Refuse(status, why)

M = (1 << 64) - 1
P1, P2, P3 = 11400714785074694791, 14029467366897019727, 1609587929392839161
P4, P5 = 9650029242287828579, 2870177450012600261

def rol(x, r):
    return (x << r | x >> (64 - r)) & M

def mix(acc, v):
    return rol((acc + v * P2) & M, 31) * P1 & M

@functools.lru_cache(4096)
def xxh64(b):
    n, i = len(b), 0
    h = P5
    if n >= 32:
        v = [(P1 + P2) & M, P2, 0, -P1 & M]
        while i + 32 <= n:
            v = [mix(a, w) for a, w in zip(v, unpack_from('<4Q', b, i))]
            i += 32
        h = sum(rol(a, r) for a, r in zip(v, (1, 7, 12, 18))) & M
        for a in v:
            h = ((h ^ mix(0, a)) * P1 + P4) & M
    h = (h + n) & M
    while i + 8 <= n:
        h = (rol(h ^ mix(0, unpack_from('<Q', b, i)[0]), 27) * P1 + P4) & M
        i += 8
    if i + 4 <= n:
        h = (rol(h ^ unpack_from('<I', b, i)[0] * P1 & M, 23) * P2 + P3) & M
        i += 4
    while i < n:
        h = rol(h ^ b[i] * P5 & M, 11) * P1 & M
        i += 1
    h = (h ^ h >> 33) * P2 & M
    h = (h ^ h >> 29) * P3 & M
    return h ^ h >> 32

# ---- akv-stream(5): keys and roots

def sha(b):
    return hashlib.sha256(b).digest()

def field(b):
    return pack('<I', len(b)) + b

def page_key(parent, ids):
    return sha(field(parent) + field(pack('<%dI' % len(ids), *ids)) + field(b''))

def index_key(root, key):
    return sha(field(root) + field(key))

def by_tag(ingredients):
    return sorted(ingredients, key=lambda i: i.partition(b'=')[0])

def root_of(ingredients):
    return sha(b''.join(map(field, by_tag(ingredients))))

# ---- akv-stream(5): records

def record(kind, fields, body=b''):
    """A record as version 1 writes it."""
    n = 28 + len(fields) + 8
    head = b'AKV' + kind.encode() + b'\r\n\x1a\n' + pack('<HHIQI', 1, 1, n, len(body), 0) + fields
    return pack('<II', 0x184D2A5A, n) + head + pack('<Q', xxh64(head)) + body

def stored(raw):
    """The body of codec raw."""
    out = pack('<IBBI', 0xFD2FB528, 0x84, 0x38, len(raw))
    for at in range(0, len(raw), 1 << 17):
        block = raw[at:at + (1 << 17)]
        out += pack('<I', len(block) * 8 + (at + len(block) == len(raw)))[:3] + block
    return out + pack('<I', xxh64(raw) & 0xffffffff)

@functools.lru_cache(4096)
def unzstd(body):
    run = subprocess.run(['zstd', '-dcq'], input=body, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return run.stdout if run.returncode == 0 else None

class Page:
    pass

class Stream:
    def __init__(self, data):
        self.data, self.at, self.head, self.in_section = data, 0, None, False
        self.pages, self.requests, self.by_key, self.superseded = [], [], {}, 0
        need(data, 3, 'empty')
        while self.at < len(data):
            self.record()
        need(not self.in_section, 3, 'no E')

    def take(self, n):
        need(self.at + n <= len(self.data), 3, 'cut short')
        self.at += n
        return self.data[self.at - n:self.at]

    def record(self):
        start = self.at
        magic, n, akv, kind, tail, version, oldest, n2 = unpack_from('<II3ss4sHHI', self.take(24))
        kind = kind.decode('latin-1')
        need(magic == 0x184D2A5A and akv == b'AKV' and tail == b'\r\n\x1a\n', 3, 'magic')
        need(re.fullmatch('[A-Za-z]', kind) and (start or kind == 'H'), 3, 'type')
        need(n == n2 and 36 <= n <= (1 << 26 if kind == 'Q' else 1 << 20), 3, 'n')
        self.at = start + 8
        h = self.take(n)
        need(unpack_from('<Q', h, n - 8)[0] == xxh64(h[:-8]), 3, 'XXH64 of the header')
        need(oldest <= 1, 4, 'newer')
        body_bytes, flags = unpack_from('<QI', h, 16)
        need(flags == 0, 4, 'flags')
        need(kind not in 'HQE' or not body_bytes, 3, 'a body')
        if kind not in 'HPQE':
            need(kind.islower(), 4, 'unknown type')
            self.take(body_bytes)
            return
        need(self.in_section != (kind == 'H'), 3, 'grammar')
        f = h[28:-8]
        end, canon = getattr(self, 'on_' + kind)(f, body_bytes)
        need(end == len(f) or (end < len(f) and version > 1), 3, 'size of the fields')
        if version == 1:
            need(canon == self.data[start:self.at], 3, 'not as it would be written')

    def on_H(self, f, _):
        need(len(f) >= 60, 3, 'short')
        root = f[:32]
        geom = unpack_from('<5I', f, 32)
        page, n = unpack_from('<2I', f, 52)
        layers, heads, dk, dv, dtype = geom
        need(dtype <= 1 and page == 64, 4, 'dtype or page size')
        need(1 <= layers <= 1024 and 1 <= heads <= 1024 and 1 <= dk <= 4096 and 1 <= dv <= 4096 and n <= 1024, 3, 'limits')
        self.s = 4 if dtype else 2
        self.per_token = layers * heads * (dk + dv) * self.s
        need(64 * self.per_token <= 1 << 30, 3, 'a page too large')
        at, ingredients = 60, []
        for _ in range(n):
            need(at + 4 <= len(f), 3, 'ingredient')
            size = unpack_from('<I', f, at)[0]
            need(at + 4 + size <= len(f), 3, 'ingredient')
            ingredients.append(f[at + 4:at + 4 + size])
            at += 4 + size
        tags = []
        for i in ingredients:
            tag, eq, _ = i.partition(b'=')
            need(tag and eq and b'\0' not in i, 3, 'tag=value')
            i.decode('utf-8')
            tags.append(tag)
        need(all(a < b for a, b in zip(tags, tags[1:])), 3, 'order of tags')
        need(b'salted' in tags or root_of(ingredients) == root, 3, 'root')
        head = root, geom, ingredients
        need(self.head in (None, head), 4, 'another root')
        self.head, self.in_section, self.section = head, True, []
        self.seen = 0
        return at, record('H', root + pack('<7I', *geom, 64, n) + b''.join(map(field, ingredients)))

    def on_P(self, f, body_bytes):
        need(len(f) >= 124, 3, 'short')
        p = Page()
        p.key, p.parent, p.sha = f[:32], f[32:64], f[84:116]
        p.index, p.t, p.codec, raw_size, xxh = *unpack_from('<3IQ', f, 64), unpack_from('<Q', f, 116)[0]
        need(1 <= p.t <= 64 and p.index < 1 << 25, 3, 'tokens or index')
        need(len(f) >= 124 + 4 * p.t, 3, 'short')
        need(p.codec <= 1, 4, 'codec')
        p.ids = unpack_from('<%dI' % p.t, f, 124)
        need(p.index or p.parent == bytes(32), 3, 'parent of page 0')
        need(raw_size == p.t * self.per_token, 3, 'raw size')
        need(page_key(p.parent if p.index else b'', p.ids) == p.key, 3, 'ids and key')
        need(1 <= body_bytes <= raw_size + raw_size // 128 + 1024, 3, 'body size')
        before = self.by_key.get(p.parent) if p.index else None
        need(not before or (before.t == 64 and before.index + 1 == p.index), 3, 'parent')
        p.open = p.index > 0 and (not before or before.open)
        body = self.take(body_bytes)
        need(xxh64(body) == xxh, 3, 'XXH64 of the body')
        p.raw = self.decode(p, body, raw_size)
        need(sha(p.raw) == p.sha, 3, 'sha')
        self.seen += 1
        known = self.by_key.get(p.key)
        need(not known or known.sha == p.sha, 3, 'exactness')
        if not known:
            self.by_key[p.key] = p
            self.pages.append(p)
            self.section.append(p)
        fields = f[:64] + pack('<3IQ', p.index, p.t, p.codec, raw_size) + p.sha + pack('<Q', xxh) + pack('<%dI' % p.t, *p.ids)
        return 124 + 4 * p.t, record('P', fields, body)

    def decode(self, p, body, raw_size):
        need(body[:4] == bytes.fromhex('28b52ffd') and len(body) > 6, 3, 'no zstd frame')
        d = body[4]
        need(d >> 2 & 1 and not d & 3, 3, 'no checksum, or a dictionary')
        size_at, size_bytes = 5 + (not d >> 5 & 1), (d >> 5 & 1, 2, 4, 8)[d >> 6]
        content = int.from_bytes(body[size_at:size_at + size_bytes], 'little') + (256 if size_bytes == 2 else 0)
        need(size_bytes and content == raw_size, 3, 'content size')
        raw = unzstd(body)
        need(raw is not None and len(raw) == raw_size, 3, 'zstd')
        if p.codec == 0:
            need(stored(raw) == body, 3, 'raw, but not as it would be written')
            return raw
        n, out = len(raw) // self.s, bytearray(len(raw))
        for j in range(self.s):
            out[j::self.s] = raw[j * n:(j + 1) * n]
        return bytes(out)

    def on_Q(self, f, _):
        rec = check_record(f)
        self.requests.append(rec)
        return len(f), record('Q', write_record(rec))

    def on_E(self, f, _):
        need(len(f) >= 12, 3, 'short')
        pages, k = unpack_from('<QI', f)
        need(pages == self.seen and len(f) >= 12 + 32 * k, 3, 'pages')
        tips = [f[12 + 32 * i:44 + 32 * i] for i in range(k)]
        need(all(t in self.by_key for t in tips), 3, 'unknown tip')
        need(tips == self.tips(self.section), 3, 'not the tips')
        self.in_section = False
        return 12 + 32 * k, record('E', f[:12] + b''.join(tips))

    def outgrown(self, a, pages):
        return any(b.index == a.index and b.parent == a.parent and b.t > a.t and b.ids[:a.t] == a.ids for b in pages)

    def tips(self, pages):
        parents = {p.parent for p in pages if p.index}
        return [p.key for p in pages if p.key not in parents and not self.outgrown(p, pages)]

    def element(self, p, l, j, d, i, v):
        _, heads, dk, dv, _ = self.head[1]
        base = (l * heads + j) * (dk + dv) * p.t
        at = base + dk * p.t + i * dv + d if v else base + d * p.t + i
        return p.raw[at * self.s:(at + 1) * self.s]

    def check_layout(self):
        """An outgrown page has the rows of the longer one; V of the first layer follows from the id alone."""
        layers, heads, dk, dv, _ = self.head[1]
        rows = {}
        for p in self.pages:
            for i, token in enumerate(p.ids):
                row = [self.element(p, 0, j, d, i, True) for j in range(heads) for d in range(dv)]
                need(rows.setdefault(token, row) == row, 3, 'V of one id differs from place to place')
            longer = [b for b in self.pages if self.outgrown(p, [b])]
            self.superseded += bool(longer)
            for b in longer:
                for l in range(layers):
                    for j in range(heads):
                        need(all(self.element(p, l, j, d, i, v) == self.element(b, l, j, d, i, v) for i in range(p.t)
                                 for v, dims in ((False, dk), (True, dv)) for d in range(dims)), 3, 'rows of an outgrown page')

# ---- akv-tokens(5)

def no_twins(pairs):
    need(len({k for k, _ in pairs}) == len(pairs), 3, 'the same member twice')
    return dict(pairs)

def whole(v):
    return type(v) is int

def check_record(text):
    rec = json.loads(text.decode('utf-8'), object_pairs_hook=no_twins)
    need(isinstance(rec, dict) and isinstance(rec.get('akv'), str) and rec['akv'].startswith('tokens/'), 3, 'akv')
    need(rec['akv'] == 'tokens/1', 4, 'version')
    need(isinstance(rec.get('id'), str) and '\0' not in rec['id'], 3, 'id')
    ids, n = rec.get('tokens'), rec.get('n')
    need(isinstance(ids, list) and all(whole(i) and 0 <= i < 2**32 - 1 for i in ids) and whole(n) and n == len(ids), 3, 'tokens')
    need('tok' not in rec or re.fullmatch('[0-9a-f]{64}', rec['tok']), 3, 'tok')
    at = 0
    for s in rec.get('spans', []):
        need(isinstance(s['kind'], str) and at <= s['from'] <= s['to'] <= n, 3, 'spans')
        at = s['to']
    at, names = 0, set()
    for a in rec.get('anchors', []):
        need(a['name'] and a['name'] not in names and at <= a['at'] <= n, 3, 'anchors')
        need(0 <= a.get('moved_from', 0) <= n, 3, 'moved_from')
        at = a['at']
        names.add(a['name'])
    if 'keys' in rec:
        need(rec['keys'] == [k.hex() for k in chain(ids)], 3, 'keys')
    return rec

def chain(ids):
    keys, parent = [], b''
    for at in range(0, len(ids), 64):
        parent = page_key(parent, ids[at:at + 64])
        keys.append(parent)
    return keys

def write_record(rec):
    order = ['akv', 'id', 'tok', 'n', 'tokens', 'spans', 'anchors', 'gen']
    out = {k: rec[k] for k in order if k in rec}
    out.update(rec)
    return json.dumps(out, separators=(',', ':'), ensure_ascii=False).encode()

# ---- digests: a GGUF file, then the fields of akv-tokens(5) and akv-store(5)

class Gguf:
    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    TYPES = {0: ('F32', 1, 4), 1: ('F16', 1, 2), 2: ('Q4_0', 32, 18), 3: ('Q4_1', 32, 20), 8: ('Q8_0', 32, 34)}

    def __init__(self, path):
        self.b, self.at = open(path, 'rb').read(), 8
        n_tensors, n_keys = self.num('<Q'), self.num('<Q')
        self.keys = {}
        for _ in range(n_keys):
            name, kind = self.string(), self.num('<I')
            start = self.at
            self.value(kind)
            self.keys[name] = kind, self.b[start:self.at]
        self.arch = self.keys[b'general.architecture'][1][8:]
        infos = []
        for _ in range(n_tensors):
            name = self.string()
            dims = [self.num('<Q') for _ in range(self.num('<I'))]
            infos.append((name, dims, self.num('<I'), self.num('<Q')))
        base = (self.at + 31) // 32 * 32
        self.tensors = []
        for name, dims, kind, offset in sorted(infos):
            label, block, size = self.TYPES[kind]
            n = size // block if block == 1 else 0
            count = 1
            for d in dims:
                count *= d
            n = count // block * size
            self.tensors.append((name, label, dims, sha(self.b[base + offset:base + offset + n])))

    def num(self, fmt):
        self.at += struct.calcsize(fmt)
        return unpack_from(fmt, self.b, self.at - struct.calcsize(fmt))[0]

    def string(self):
        n = self.num('<Q')
        self.at += n
        return self.b[self.at - n:self.at]

    def value(self, kind):
        if kind == 8:
            self.string()
        elif kind == 9:
            of, n = self.num('<I'), self.num('<Q')
            for _ in range(n):
                self.value(of)
        else:
            self.at += self.SIZES[kind]

    def tokenizer_digest(self):
        out = b''
        for name in sorted(self.keys):
            if name.startswith(b'tokenizer.') and not name.startswith(b'tokenizer.chat_template'):
                kind, value = self.keys[name]
                out += field(name) + field(b'%d' % kind) + field(value)
        return sha(out + field(b'pre=' + self.keys[b'tokenizer.ggml.pre'][1][8:]))

    def u32(self, name, default=None):
        key = self.arch + b'.' + name
        return unpack_from('<I', self.keys[key][1])[0] if key in self.keys else default

    def dims(self, kind):
        return self.u32(b'attention.' + kind + b'_length', self.u32(b'embedding_length') // self.u32(b'attention.head_count'))

    def style(self):
        return 'pairs' if self.arch == b'llama' else 'halves'

    def weights_digest(self):
        out = b''
        for name, label, dims, digest in self.tensors:
            out += field(name) + field(label.encode()) + field('x'.join(map(str, dims)).encode()) + field(digest)
        e, h = self.u32(b'embedding_length'), self.u32(b'attention.head_count')
        for text in ('architecture=' + self.arch.decode(), 'dim_k=%d' % self.dims(b'key'), 'dim_v=%d' % self.dims(b'value'),
                     'n_embd=%d' % e,
                     'n_ff=%d' % self.u32(b'feed_forward_length'), 'n_heads=%d' % h,
                     'n_kv_heads=%d' % self.u32(b'attention.head_count_kv'), 'n_layers=%d' % self.u32(b'block_count'),
                     'n_rot=%d' % self.u32(b'rope.dimension_count', self.dims(b'key')),
                     'rms_eps=%08x' % self.u32(b'attention.layer_norm_rms_epsilon'),
                     'rope_base=%08x' % self.u32(b'rope.freq_base'), 'rope_style=' + self.style()):
            out += field(text.encode())
        return sha(out)

    def positions(self):
        """The ingredients about RoPE and windows, where all is said in the file or by a default."""
        out = {'rope.base': '%08x' % self.u32(b'rope.freq_base'), 'rope.style': self.style(), 'window': 'none',
               'rope.dims': '%d' % self.u32(b'rope.dimension_count', self.dims(b'key'))}
        if b'rope_freqs.weight' in (t[0] for t in self.tensors):
            out['rope.factors'] = next(t[3] for t in self.tensors if t[0] == b'rope_freqs.weight').hex()
        scaling = self.keys.get(self.arch + b'.rope.scaling.type')
        if scaling:
            out['rope.scaling'] = scaling[1][8:].decode()
            out['rope.factor'] = '%08x' % self.u32(b'rope.scaling.factor')
        if scaling and out['rope.scaling'] == 'yarn':
            out.update({'rope.yarn.beta_fast': '42000000', 'rope.yarn.beta_slow': '3f800000', 'rope.yarn.ext_factor': '3f800000',
                        'rope.yarn.context': '%d' % self.u32(b'rope.scaling.original_context_length')})
        window, every = self.u32(b'attention.sliding_window', 0), self.u32(b'attention.sliding_window_pattern', 6)
        if window:
            layers = ''.join('l' if i % every < every - 1 else 'g' for i in range(self.u32(b'block_count')))
            out.update({'window': '%d' % window, 'window.layers': layers, 'rope.base.local': '461c4000'})
        return {tag.encode(): value.encode() for tag, value in out.items()}

# ---- akv-store(5)

def check_store(store):
    join = os.path.join
    need(open(join(store, 'VERSION')).read() == 'akv-store 1\n', 4, 'VERSION')
    need('codec=planes' in open(join(store, 'config')).read().split('\n'), 3, 'config')
    objects = {}
    for where, _, files in os.walk(store):
        need(os.stat(where).st_mode & 0o777 == 0o700, 3, 'mode of ' + where)
        for name in files:
            path = join(where, name)
            need(os.stat(path).st_mode & 0o777 == 0o600, 3, 'mode of ' + path)
            if '/objects/' in path:
                s = Stream(open(path, 'rb').read())
                p, = s.pages
                need(path == join(store, 'objects', *re.fullmatch('(..)(.*)', index_key(s.head[0], p.key).hex()).groups())
                     + '.akv', 3, 'name of ' + path)
                objects[s.head[0], p.key] = p, os.stat(path).st_size
    pins = 0
    for where, _, files in os.walk(join(store, 'refs')):
        for name in files:
            lines = open(join(where, name)).read().split('\n')
            need(lines[0] == 'akv-ref 1' and lines[-1] == '', 3, 'ref')
            ref = dict(l.split(' ', 1) for l in lines[1:-1])
            root = bytes.fromhex(ref['root'])
            need(os.path.basename(where) == ref['root'][:16], 3, 'place of a ref')
            pages, key = [], bytes.fromhex(ref['tip'])
            while not pages or pages[0][0].index:
                pages.insert(0, objects[root, key])
                key = pages[0][0].parent
            need([p.index for p, _ in pages] == list(range(len(pages))) and all(p.t == 64 for p, _ in pages[:-1]), 3, 'chain')
            need(int(ref['tokens']) == sum(p.t for p, _ in pages), 3, 'tokens')
            need(int(ref['bytes']) == sum(n for _, n in pages), 3, 'bytes')
            need(ref['content'] == sha(b''.join(p.sha for p, _ in pages)).hex() and 'made-by' in ref, 3, 'content')
            pins += 1
    return '%d objects, %d pins' % (len(objects), pins)

def check_cache(cache, path):
    st, g = os.stat(path), Gguf(path)
    try:
        host = open('/etc/machine-id', 'rb').read(256)
    except OSError:
        host = b''
    host = host or os.uname().nodename.encode()
    name = sha(field(host) + b''.join(field(pack('<Q', v)) for v in
                                      (st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns))).hex()
    content = b'akvsha1\n' + b''.join(t[3] for t in g.tensors)
    need(open(os.path.join(cache, name), 'rb').read() == content + pack('<Q', xxh64(content)), 3, 'entry')

# ---- what the test asks for

def known():
    a = page_key(b'', [11, 12, 13])
    b = page_key(a, [14, 15, 16])
    for k in (a, b, page_key(b, [17, 18]), page_key(b'', []), index_key(b'a root', a), root_of([b'b=2', b'a=1'])):
        print(k.hex())

def describe(s):
    s.check_layout()
    print('%d pages, %d planes, %d open, %d superseded, %d requests, %d tips' % (
        len(s.pages), sum(p.codec for p in s.pages), sum(p.open for p in s.pages), s.superseded, len(s.requests),
        len(s.tips(s.pages))))

def damage(data):
    """Change bytes: all of every record but its body, some of the body. Then all fields, under a new and right checksum."""
    places, at = [], 0
    while at < len(data):
        n, body = unpack_from('<I', data, at + 4)[0], unpack_from('<Q', data, at + 24)[0]
        places += [(at, n, i, False) for i in list(range(8 + n)) + list(range(8 + n, 8 + n + body, 101))]
        if data[at + 11:at + 12] != b'Q': # whose fields are free text
            places += [(at, n, i, True) for i in range(8 + 28, n)]
        at += 8 + n + body
    for start, n, i, seal in places:
        other = bytearray(data)
        other[start + i] ^= 1 << i % 8
        if seal:
            other[start + n:start + n + 8] = pack('<Q', xxh64(bytes(other[start + 8:start + n])))
        try:
            Stream(bytes(other))
        except (Refuse, ValueError):
            continue
        raise Refuse(3, 'byte %d of the record at %d may be anything (new checksum: %s)' % (i, start, seal))
    print(len(places), 'changes refused')

def write():
    """A stream of this program's own: bodies of several blocks, a chain of two pages."""
    geom, ingredients = (5, 4, 32, 64, 1), [b'kv=f32', 'name=\u00e9'.encode()]
    root, per_token, parent = root_of(ingredients), 5 * 4 * (32 + 64) * 4, b''
    out = record('H', root + pack('<7I', *geom, 64, 2) + b''.join(map(field, ingredients)))
    for index, t in enumerate((64, 19)):
        ids = [7 * i * i + index for i in range(t)]
        raw = b''.join(sha(pack('<2I', index, i)) for i in range(t * per_token // 32))
        key, body = page_key(parent, ids), stored(raw)
        out += record('P', key + (parent or bytes(32)) + pack('<3IQ', index, t, 0, len(raw)) + sha(raw) + pack('<Q', xxh64(body))
                      + pack('<%dI' % t, *ids), body)
        parent = key
    return out + record('E', pack('<QI', 2, 1) + key)

def main(what, *args):
    data = open(args[0], 'rb').read() if what in ('stream', 'raw', 'codecs', 'damage', 'tokens', 'root') else b''
    if what == 'known':
        known()
    elif what == 'write':
        sys.stdout.buffer.write(write())
    elif what == 'stream':
        describe(Stream(data))
    elif what == 'raw':
        sys.stdout.buffer.write(b''.join(p.raw for p in Stream(data).pages))
    elif what == 'codecs':
        print(*(('raw', 'planes')[c] for c in sorted({p.codec for p in Stream(data).pages})))
    elif what == 'damage':
        damage(data)
    elif what == 'root': # the ingredients, from the model
        s, g = Stream(data), Gguf(args[1])
        want = {b'format': b'akv/1', b'kv': args[2].encode(), b'layout': b'k-dims-v-tokens', b'numerics': b'1', b'page': b'64',
                b'tokenizer': g.tokenizer_digest().hex().encode(), b'weights': g.weights_digest().hex().encode(), **g.positions()}
        shown = dict(want)
        if len(args) > 3:
            want[b'salt'] = sha(open(args[3], 'rb').read()).hex().encode()
            shown[b'salted'] = b'1'
        need(s.head[2] == by_tag(t + b'=' + v for t, v in shown.items()), 3, 'ingredients')
        need(root_of([t + b'=' + v for t, v in want.items()]) == s.head[0], 3, 'root of the model')
        print(s.head[0].hex())
    elif what == 'tokens':
        for line in data.splitlines():
            need(write_record(check_record(line)) == line, 3, 'not as it would be written')
        print(len(data.splitlines()), 'records')
    elif what == 'store':
        print(check_store(args[0]))
    elif what == 'cache':
        check_cache(*args)

try:
    main(*sys.argv[1:])
except Refuse as e:
    print('refused: %s' % e.args[1], file=sys.stderr)
    sys.exit(e.args[0])
PY

read_with() {
    python3 reader.py "$@"
}

# The text of a manual page between two lines that match, as it is shown.
page() {
    mandoc -T utf8 "$TOP/man/$1" | sed 's/.\x08//g' | sed -n "/$2/,/$3/p"
}

text='The lighthouse keeper wrote every evening. On the ninth of March the wind came from the north, and 3 ships passed
before midnight; one of them carried 412 crates of oranges, two lanterns and a letter that nobody had
signed. The ship, the wind, the letter: 412.'
printf '%s' "$text" >text
printf '{"messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}],%s}\n' \
    'You plan the work of a small workshop, today is 2026-01-15.' 'What is \u0001 \u00e9?' \
    '"temperature":0.7,"top_p":1e-05,"seed":3,"stop":["\n\n"],"max_tokens":8' >chat.json

if t_begin "akv-stream(5): the known answers of keys and roots, computed again" python3 mandoc; then
    t_run 0 read_with known
    page akv-stream.5 'Known answers' '^GRAMMAR' | grep -oE '\b[0-9a-f]{64}\b' >answers
    t_is "$(wc -l <answers)" 6 "the number of known answers in the page"
    t_out_is answers
fi

if t_begin "akv-stream(5): the stream in the page is what the page says, and no byte of it may change" python3 mandoc zstd; then
    page akv-stream.5 '^ *000  5a' '^ *1e0' | sed -E 's/^ *[0-9a-f]{3}  (([0-9a-f]{2} ?)+).*/\1/' >hex
    python3 -c 'import sys; sys.stdout.buffer.write(bytes.fromhex(open("hex").read()))' >page.akv
    t_is "$(wc -c <page.akv)" 490 "the length"
    t_run 0 read_with stream page.akv
    t_out '^1 pages, 0 planes, 0 open, 0 superseded, 1 requests, 1 tips$'
    t_run 0 akv-inspect --verify page.akv
    t_sh 0 'akv-inspect --raw page.akv | od -An -tx1'
    t_out '^ 00 3c 00 c0$'
    t_run 0 read_with damage page.akv
    python3 -c '
import sys
data = open("page.akv", "rb").read()
for i in range(len(data)):
    other = bytearray(data)
    other[i] ^= 1 << i % 8
    open("changed.%d" % i, "wb").write(other)'
    # shellcheck disable=SC2046 # a list of names
    t_run 1 akv-inspect --verify $(seq -f 'changed.%g' 16 489)
    t_is "$(wc -l <"$t_stderr") $(grep -c . "$t_stdout")" "474 0" "streams refused and accepted"
    for i in $(seq 0 15); do # what does not begin like a stream is none
        akv-inspect --verify "changed.$i" >/dev/null 2>&1
        grep -qx '[13]' <<<$? || t_fail "byte $i may be changed"
    done
fi

if t_begin "akv-stream(5): a stream written from the page goes through a store and comes back byte for byte" python3 zstd; then
    read_with write >mine.akv
    t_run 0 zstd -qt mine.akv
    t_run 0 akv-inspect --verify mine.akv
    t_out ': ok: 2 pages, 83 tokens, 0 requests$'
    t_sh 0 'akv-pin -q -s mine a <mine.akv'
    t_run 0 akv-pin -s mine --export a
    t_out_is mine.akv
fi

if t_begin "akv-stream(5): what akv-prefill writes is what the page allows, in every form" tiny python3 zstd jq; then
    export AKV_MODEL=$TINY
    t_sh 0 'akv-tokenize --raw text >full.tok'
    t_sh 0 'jq -c "{akv, id: \"cut\", n: 70, tokens: .tokens[:70], gen: {max_tokens: 0}}" full.tok >cut.tok'
    t_sh 0 'printf "x%.0s" $(seq 70) | akv-tokenize --raw >same.tok'
    t_sh 0 'akv-tokenize chat.json >chat.tok'
    t_run 0 akv-prefill -o full.akv full.tok
    t_run 0 akv-prefill -o cut.akv cut.tok
    t_run 0 akv-prefill --delta=cut.akv -o delta.akv full.tok
    t_run 0 akv-prefill -o many.akv full.tok chat.tok same.tok
    t_run 0 akv-prefill --kv f32 -o f32.akv same.tok full.tok
    cat cut.akv delta.akv >joined.akv
    for file in full cut many f32 joined delta; do
        t_run 0 read_with stream "$file.akv"
        cp "$t_stdout" "$file.seen"
        read_with raw "$file.akv" >"$file.raw"
        t_sh 0 "akv-inspect --raw $file.akv"
        t_out_is "$file.raw"
    done
    n=$(jq .n full.tok)
    t_grep full.seen "a prompt" "^$(((n + 63) / 64)) pages, .* 0 open, 0 superseded, 1 requests, 1 tips$"
    t_grep joined.seen "base and delta" "^$(((n + 63) / 64 + 1)) pages, .* 0 open, 1 superseded, 2 requests, 1 tips$"
    t_grep delta.seen "a delta alone" ' [1-9] open, 0 superseded, 1 requests, 1 tips$'
    t_grep many.seen "several prompts" ' [1-9] planes, 0 open, 0 superseded, 3 requests, 3 tips$'
    t_grep f32.seen f32 ' [1-9] planes,'
    t_run 0 read_with codecs many.akv
    t_out '^raw planes$'
fi

if t_begin "akv-stream(5): no byte of a stream with both codecs and a tail may change" tiny python3 zstd; then
    t_run 0 "$AKV_BUILD/tests/mkmodel" --layers 1 --width 32 --heads 1 --kv-heads 1 --ff 32 -o small.gguf
    t_sh 0 'AKV_MODEL=small.gguf; export AKV_MODEL; printf "x%.0s" $(seq 70) | akv-tokenize --raw >same.tok
        printf "Wed 7" | akv-tokenize --raw | akv-prefill -o small.akv - same.tok'
    t_run 0 read_with codecs small.akv
    t_out '^raw planes$'
    t_run 0 read_with damage small.akv
    t_out ' changes refused$'
fi

if t_begin "a root follows from model, KV dtype and salt as the pages say" tiny python3 zstd; then
    export AKV_MODEL=$TINY
    printf 'a secret of some length\n' >salt && chmod 600 salt
    t_sh 0 'akv-tokenize --raw text >full.tok'
    for kv in f16 f32; do
        t_run 0 akv-prefill --kv $kv -o root.akv full.tok
        t_run 0 read_with root root.akv "$TINY" $kv
        AKV_SALT_FILE=salt t_run 0 akv-prefill --kv $kv -o root.akv full.tok
        t_run 0 read_with root root.akv "$TINY" $kv salt
        t_run 3 read_with root root.akv "$TINY" $kv # not without it
    done
    for dtype in f16 q8_0 q4_0 q4_1; do
        t_run 0 "$AKV_BUILD/tests/mkmodel" --dtype $dtype --layers 1 --tied -o other.gguf
        t_run 0 akv-prefill -m other.gguf -o root.akv full.tok
        t_run 0 read_with root root.akv other.gguf f16
    done
    for options in '--arch qwen2' '--arch qwen3 --head-dim 64' '--arch gemma3 --window 9' '--rope linear' '--rope factors' \
        '--arch gemma3 --window 5 --pattern 2 --softcap 30 --rope yarn'; do
        # shellcheck disable=SC2086 # a list of options
        t_run 0 "$AKV_BUILD/tests/mkmodel" --dtype q8_0 --layers 3 $options -o other.gguf
        t_run 0 akv-prefill -m other.gguf -o root.akv full.tok
        t_run 0 read_with root root.akv other.gguf f16
    done
fi

if t_begin "akv-store(5): every name, mode, object and pin of a store" tiny python3 zstd jq; then
    export AKV_MODEL=$TINY
    t_sh 0 'akv-tokenize --raw text | akv-prefill | akv-pin -q -s store "a pin"'
    t_sh 0 'akv-tokenize chat.json | akv-prefill -s store --save | akv-pin -q -s store chat'
    t_run 0 read_with store store
    t_out '^[1-9][0-9]* objects, 2 pins$'
    for file in store/refs/*/chat $(find store/objects -name '*.akv' | head -n 1); do
        cp "$file" kept
        printf 'x' | dd of="$file" bs=1 seek=50 conv=notrunc 2>/dev/null
        read_with store store >/dev/null 2>&1 && t_fail "$file may be changed"
        cp kept "$file"
    done
    t_run 0 read_with store store
fi

if t_begin "akv-store(5): copied as the page says, a store serves" tiny python3 zstd; then
    export AKV_MODEL=$TINY
    copy='cp -an'
    command -v rsync >/dev/null && copy='rsync -a --ignore-existing'
    t_sh 0 'akv-tokenize --raw text >full.tok; akv-tokenize --raw chat.json >other.tok'
    t_sh 0 'akv-prefill full.tok | akv-pin -q -s a full; akv-prefill other.tok | akv-pin -q -s b other'
    t_sh 0 "$copy a/objects/. b/objects/ && $copy a/refs/. b/refs/"
    t_run 0 read_with store b
    t_out ' 2 pins$'
    t_run 0 akv-restore --require -s b full.tok other.tok
fi

if t_begin "akv-tokens(5): what the tools write is what the page says, byte for byte" tiny python3 jq; then
    export AKV_MODEL=$TINY
    t_sh 0 'akv-tokenize chat.json | akv-split --keys --lint --at 5 >record'
    t_sh 0 'akv-split --prefix record >>record.all; cat record >>record.all; akv-tokenize --raw text >>record.all'
    t_run 0 read_with tokens record.all
    t_sh 0 'jq -c ".keys[0] = .tok" record >wrong.key; jq -c ".n += 1" record >wrong.n
        jq -c ".anchors[0].at = 999" record >wrong.at; jq -c ".akv = \"tokens/2\"" record >wrong.version'
    for file in wrong.key wrong.n wrong.at; do
        t_run 3 akv-split "$file"
        t_run 3 read_with tokens "$file"
    done
    t_run 4 akv-split wrong.version
    t_run 4 read_with tokens wrong.version
fi

if t_begin "akv-tokens(5): the record in the page is one, keys included" python3 mandoc jq; then
    page akv-tokens.5 '^ *{"akv"' 'carried through"}' | sed 's/^ *//' | tr -d '\n' >record
    echo >>record
    t_run 0 akv-split --keys record
    jq -c . record >want
    t_is "$(jq -cS . "$t_stdout")" "$(jq -cS . record)" "the record that came back"
    t_is "$(jq -c .keys "$t_stdout")" "$(jq -c .keys record)" "the keys"
    t_run 0 read_with tokens "$t_stdout"
fi

if t_begin "akv-store(5): the cache of tensor hashes" tiny python3; then
    # an entry is made for files that have rested for two seconds
    while [ $(($(date +%s) - $(stat -c %Z "$TINY"))) -lt 4 ]; do sleep 0.2; done
    t_run 0 akv-inspect --root "$TINY"
    t_run 0 read_with cache .cache/akv/weights "$TINY"
fi
t_end
