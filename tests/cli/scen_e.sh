# Benchmarks: an arm proves what it did, or its row is void, or akv-bench fails.
. "$(dirname "$0")/../lib.sh"
t_needs tiny jq

export AKV_MODEL=$TINY
system='You are a helpful assistant that answers in short sentences and calls a tool when the question needs one. When the user asks for the
time of a meeting, look into the calendar first, then answer with the time and the name of the room.'
jq -nc --arg s "$system" '["What is the weather?", "It is warm and there is no chance of rain this morning, so the others are in the garden.",
    "Please write a short note to the others and tell them where to find us.", "It is written.", "Where are the others?"] as $m |
    range(3) as $turn | {id: "turn \($turn + 1)", max_tokens: 8, messages: ([{role: "system", content: $s}] + [range($turn * 2 + 1) |
        {role: (if . % 2 == 0 then "user" else "assistant" end), content: $m[.]}])}' >turns.json
t_run 0 akv-tokenize -o turns.tok turns.json
head -n 1 turns.tok >one.tok

# rows FILTER: of the JSON Lines on stdout, each row's value, one a line.
rows() {
    jq -c "$1" "$t_stdout"
}

t_begin "three arms: the cold one reuses nothing, the warm one what the turns before have left"
t_run 0 akv-bench turns -r 2 -o jsonl turns.tok
t_is "$(rows .turn | wc -l)" 3 "the rows"
t_is "$(rows .void | sort -u)" false "void"
t_is "$(rows 'select(.cached_tokens + .prefilled_tokens != .prompt_tokens)')" "" "rows that do not add up"
t_is "$(rows .cached_tokens | head -n 1)" 0 "cached in the first turn"
t_is "$(rows 'select(.cached_tokens < 64)' | wc -l)" 1 "turns that reuse less than a page"
t_is "$(rows 'select(.none_ms > 0 and .cold_ms > 0 and .warm_ms > 0)' | wc -l)" 3 "rows with times"
t_run 0 akv-bench turns -r 1 <turns.tok
t_out '^\| turn [23] \| [0-9]+ \| [0-9]+ \| [0-9]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+x \| warm \|'
t_out '^Restoring is (faster from [0-9]+ tokens on|slower at any length)\.$'

t_begin "the store of the turns lies in TMPDIR and is removed, also when the run fails or is interrupted"
mkdir tmp
TMPDIR=$T/tmp t_run 0 akv-bench turns -r 1 turns.tok
TMPDIR=$T/tmp t_run 1 akv-bench turns -r 1 one.tok
(
    TMPDIR=$T/tmp akv-bench turns -r 1000 turns.tok >/dev/null 2>&1 &
    while ! compgen -G 'tmp/*/run-*' >/dev/null; do sleep 0.05; done # any run: each takes its directory with it
    kill -TERM $!
    wait $!
)
t_is "$(ls tmp)" "" "what is left in TMPDIR"

t_begin "E1 a cold arm that meets a warm store voids its row"
t_run 0 akv-bench turns -r 1 -s stores turns.tok
t_is "$(find stores/run-1/warm/objects -name '*.akv' | wc -l)" "$(find stores/run-1/cold-* -name '*.akv' -exec basename {} \; | sort -u | wc -l)" "objects that are kept"
t_run 1 akv-bench turns -r 1 -s stores turns.tok
t_err '^akv-bench: 3 rows are void: '
t_out '\| void \|.*void: the cold arm found [0-9]+ tokens$'
rm -r stores/run-1/cold-2
t_run 1 akv-bench turns -r 1 -s stores -o jsonl turns.tok
t_err '^akv-bench: 2 rows are void: '
t_is "$(rows '[.void, .cold_ms == null]' | tr '\n' ' ')" "[true,true] [false,false] [true,true] " "void, and no cold time"

t_begin "E2 a warm arm that never hits is a failure"
t_run 1 akv-bench turns -r 1 one.tok
t_err '^akv-bench: the warm arm never hit$'

t_begin "E3 arms that reply differently are a failure, with the first token that differs"
# Another model's pages under this model's name: its weights' digest is cached as this one's.
"$AKV_BUILD/tests/mkmodel" -o other.gguf --seed 2
sleep 2.1 # digests are cached of files that have been left alone for two seconds
t_run 0 env XDG_CACHE_HOME="$T/this" akv-bench turns -r 1 turns.tok
t_run 0 env XDG_CACHE_HOME="$T/that" akv-bench turns -r 1 -m other.gguf turns.tok
cat this/akv/weights/* >"$(ls that/akv/weights/*)"
t_run 0 env XDG_CACHE_HOME="$T/that" akv-bench turns -r 1 -s foreign -m other.gguf turns.tok
rm -r foreign/run-1/cold-*
t_run 1 env XDG_CACHE_HOME="$T/this" akv-bench turns -r 1 -s foreign turns.tok
t_err '^akv-bench: turn [1-3]: the replies differ at token [0-9]+: none [0-9]+, warm [0-9]+$'
t_run 0 env XDG_CACHE_HOME="$T/this" akv-bench turns -r 1 turns.tok

if t_begin "E4 restoring that is slower than computing is called so, with the length at which it pays" plain "${CC:-gcc}"; then
    # Objects that take long to be opened: each, or the first one after the store was (with the scalar kernels, so that computing takes
    # longer than reading does besides).
    cat >slow.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int armed;

int openat(int dir, const char *path, int flags, ...)
{
    int (*real)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat");
    va_list args;
    va_start(args, flags);
    int fd = real(dir, path, flags, va_arg(args, int));
    va_end(args);
    size_t n = strlen(path);
    int each = !strcmp(getenv("SLOW"), "each");
    if (!strcmp(path, "VERSION")) {
        armed = 1;
    } else if (n > 4 && !strcmp(path + n - 4, ".akv") && !(flags & O_CREAT) && fd >= 0 && (each || armed)) {
        usleep(each ? 10000 : 999999);
        armed = 0;
    }
    return fd;
}
C
    "${CC:-gcc}" -w -shared -fPIC -o slow.so slow.c -ldl || t_fail "the slow open does not compile"
    t_run 0 env LD_PRELOAD="$T/slow.so" SLOW=first AKV_CPU=scalar akv-bench turns -r 1 -o jsonl turns.tok
    t_is "$(rows .slower | tr '\n' ' ')" "false true true " "slower"
    t_is "$(rows 'select(.break_even_tokens > .prompt_tokens)' | wc -l)" 3 "rows with a length at which it pays"
    t_run 0 env LD_PRELOAD="$T/slow.so" SLOW=first AKV_CPU=scalar akv-bench turns -r 1 turns.tok
    t_is "$(grep -c 'slower: restoring took longer than computing$' "$t_stdout")" 2 "rows that say so"
    t_out '^Restoring is faster from [0-9]+ tokens on\.$'
    t_run 0 env LD_PRELOAD="$T/slow.so" SLOW=each akv-bench turns -r 1 -o jsonl turns.tok
    t_is "$(rows .break_even_tokens | sort -u)" null "the length at which it pays"
    t_run 0 env LD_PRELOAD="$T/slow.so" SLOW=each akv-bench turns -r 1 turns.tok
    t_out '^Restoring is slower at any length\.$'
fi

t_begin "E5 the rows say whether the page cache held the store, as it was found"
t_run 0 akv-bench turns -r 1 -o jsonl turns.tok
t_is "$(rows .page_cache | tr '\n' ' ')" '"none" "warm" "warm" ' "page cache"
t_run 0 env TMPDIR="$T" akv-bench turns -r 1 --drop-cache -o jsonl turns.tok
case $(stat -f -c %T .) in
ext2/ext3 | xfs | btrfs) t_is "$(rows .page_cache | tr '\n' ' ')" '"none" "dropped" "dropped" ' "page cache" ;;
tmpfs) t_is "$(rows .page_cache | tr '\n' ' ')" '"none" "warm" "warm" ' "page cache" ;;
*) t_is "$(rows .page_cache | grep -cxE '"(none|warm|dropped|part|unknown)"')" 3 "rows that say something" ;;
esac
t_end
