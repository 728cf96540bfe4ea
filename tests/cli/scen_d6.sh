# A store of limited size: quota and collection from the command line, with runs that save.
. "$(dirname "$0")/../lib.sh"
t_needs tiny jq

export AKV_MODEL=$TINY
for x in a b c d e f; do # of three pages each, with nothing in common
    jq -nc --arg x $x '{akv: "tokens/1", id: $x, n: 150, tokens: [($x | explode[0]), (range(149) | (. * 7 + 11) % 300)]}' >$x.tok
done
answer='jq -c "[.text, .tokens]"'
bytes_of() {
    find "$1/objects" -type f -printf '%s\n' | awk '{ s += $1 } END { print s + 0 }'
}
# hit NAME: "yes" when its full pages are there: the tail of a run that generated is longer than the prompt's.
hit() {
    rm -f stats
    akv-restore -s store --stats=stats "$1.tok" >/dev/null
    jq -r 'if .cached_tokens >= 128 then "yes" else .hit end' stats
}

akv-prefill -q -s one --save -o /dev/null a.tok
chain=$(bytes_of one)
akv-prefill -o b.akv b.tok && akv-prefill -o a.akv a.tok && akv-pin -q -s store anchor <a.akv || exit 1

t_begin "D6 a quota under the pins is refused, and nothing is written"
find store -type f -exec stat -c '%n %i %s %Y' {} + | sort >before
t_run 2 akv-pin -s store --quota $((chain - 1))
t_err_line "^akv-pin: store: a quota of $((chain - 1)) bytes is less than the $chain that pins hold\$"
find store -type f ! -name lock -exec stat -c '%n %i %s %Y' {} + | sort >after
t_same <(grep -v /lock before) after
t_begin "D6 the quota is kept in the store, and told"
t_run 0 akv-pin -s store --quota 1G --json
t_is "$(jq -c '[.quota, .deleted, .pinned_bytes, .bytes]' "$t_stdout")" "[1073741824,0,$chain,$chain]" "what is said"
t_grep store/config config '^quota=1073741824$'
t_grep store/config config '^codec=planes$'
for size in 4096K 4M 4194304; do
    t_run 0 akv-pin -s store --quota $size
    t_grep store/config config '^quota=4194304$'
done
t_run 0 akv-pin -s store --quota none
t_is "$(cat store/config)" codec=planes "the config"
t_begin "D6 a line of the quota that is none stops all but the one that replaces it; another bad line stops that too"
for bad in quota= quota=4G quota=-1 "quota=$(printf '%s' {1..19})"; do
    printf '%s\n' codec=planes later=1 "$bad" >store/config
    for verb in --list --gc --verify "--gc --dry-run"; do
        # shellcheck disable=SC2086
        t_run 3 akv-pin -s store $verb
        t_err_line "^akv-pin: store/config: quota '.*' is not a number of bytes\$"
    done
    cp store/config before
    t_run 0 akv-pin -s store --quota 1G --dry-run
    t_same store/config before
    t_run 0 akv-pin -s store --quota 1G
    t_is "$(cat store/config)" "$(printf '%s\n' codec=planes later=1 quota=1073741824)" "the config"
    t_run 0 akv-pin -s store --gc
    echo "$bad" >>store/config
    t_run 0 akv-pin -s store --quota none
    t_is "$(cat store/config)" "$(printf '%s\n' codec=planes later=1)" "the config without a quota"
done
printf '%s\n' quota=4G codec=lead >store/config
t_run 4 akv-pin -s store --quota 1G
t_err_line "^akv-pin: store/config: codec 'lead' is unknown\$"
echo codec=planes >store/config

t_begin "D6 runs that save under a quota: the longest unused goes, the pin and the chain in use stay, answers do not change"
most=$((chain * 7 / 2))
t_run 0 akv-pin -s store --quota $most
for x in b c d e f; do
    t_sh 0 "akv-gen -n 8 --json $x.tok | $answer >cold.json"
    t_sh 0 "akv-gen -n 8 --json -s store --save $x.tok | $answer"
    t_out_is cold.json
    t_is "$(hit $x)" yes "hit of the last one, $x"
    t_is "$(hit a)" yes "hit of the pin"
    [ "$(bytes_of store)" -le $most ] || t_fail "the quota is exceeded"
    t_is "$(sed -n 's/^bytes 0*//p' store/usage)" "$(bytes_of store)" "the count"
done
t_is "$(hit b)" none "hit of the first one"
t_is "$(hit e)" yes "hit of the last but one"
t_run 0 akv-pin -s store --verify
t_begin "D6 restoring counts as use"
hit e >/dev/null
for x in b c; do
    hit e >/dev/null
    t_run 0 akv-prefill -q -s store --save -o /dev/null $x.tok
done
t_is "$(hit e)" yes "hit of what was restored in between"
t_begin "D6 no room at all: the answer is complete, the store as it was, exit 5"
t_run 0 akv-pin -s store --quota $((chain + chain / 8))
t_is "$(bytes_of store)" "$chain" "bytes left beside the pin"
t_sh 0 "akv-gen -n 8 --json d.tok | $answer >cold.json"
akv-gen -n 8 --json -s store --save d.tok >reply 2>err
t_is $? 5 "the exit status"
t_sh 0 "$answer reply"
t_out_is cold.json
t_grep err stderr '^akv-gen: store: no room for [0-9]+ bytes under the quota of '
t_is "$(wc -l <err)" 1 "lines on stderr"
t_is "$(bytes_of store)" "$chain" "bytes left beside the pin"
t_is "$(find store/tmp -type f | wc -l)" 0 "temps"
t_sh 5 "akv-prefill d.tok | akv-pin -s store d"
t_err_line '^akv-pin: standard input: record [0-9]+: store: no room'
t_is "$(akv-pin -s store --list --json | jq -r .name)" anchor "the pins"

t_begin "collecting: what no pin holds, unless it was used in the last ten minutes"
t_run 0 akv-pin -s store --quota none
akv-prefill -q -s store --save -o /dev/null b.tok
touch store/tmp/1.1 && touch -d '20 minutes ago' store/tmp/1.0
t_run 0 akv-pin -s store --gc
t_out '^deleted 0 objects of 0 bytes and 1 temporary files; '
t_is "$(hit b)" yes "hit of what was just saved"
find store/objects -type f -exec touch -d '20 minutes ago' {} +
t_run 0 akv-pin -s store --gc --dry-run --json
t_is "$(jq -c '[.dry_run, .deleted, .deleted_bytes, .bytes, .pinned_bytes]' "$t_stdout")" "[true,3,$chain,$chain,$chain]" "what would go"
t_is "$(bytes_of store)" $((2 * chain)) "bytes after a dry run"
t_run 0 akv-pin -s store --gc
t_is "$(bytes_of store)" "$chain" "bytes after a collection"
t_is "$(hit a)$(hit b)" yesnone "hits"
# A save that waits for the lock, which this script holds as 9, gets two signals at once: they are one request.
two_signals() {
    akv-gen -n 8 -s store --save b.tok >/dev/null 2>&1 &
    for ((i = 0; i < 400; i++)); do
        [ -z "$(find store/tmp -type f -name "$!.*")" ] || break
        sleep 0.02
    done
    kill -TERM $! && kill -HUP $!
    wait $!
    status=$?
    [[ $status == @(129|143) ]] || t_fail "exit status $status" # of two at once the later one may be handed over first
    exec 9>&-
    t_is "$(find store/tmp -type f ! -name 1.1)" "" "temps after two signals"
    t_is "$(akv-pin -s store --list --json | jq -r .name)" anchor "the pins"
}

if t_begin "a signal ends a wait for a collection by another process" flock; then
    exec 9>>store/lock && flock -x 9
    for args in --gc "--quota 1G" "--rename anchor x" "x <a.akv"; do
        t_sh 143 "timeout --preserve-status -k 60 0.5 akv-pin -s store $args"
    done
    for tool in akv-gen akv-prefill; do
        t_sh 143 "timeout --preserve-status -k 60 0.5 $tool -s store --save b.tok"
    done
    t_is "$(find store/tmp -type f ! -name 1.1)" "" "temps"
    two_signals
fi
if t_begin "a signal ends a wait for all others to stop publishing, which a save needs that counts or makes room" flock; then
    t_run 0 akv-pin -s store --quota $((chain * 2))
    rm store/usage # so that a save must count, alone
    exec 9>>store/lock && flock -s 9
    for command in "akv-pin -s store x <b.akv" "akv-gen -n 8 -s store --save b.tok" "akv-prefill -s store --save b.tok" \
        "akv-pin -s store --gc" "akv-pin -s store --quota 1G"; do
        for signal in INT TERM HUP; do
            t_sh $((128 + $(kill -l $signal))) "timeout --preserve-status -s $signal -k 60 0.5 $command"
        done
    done
    t_is "$(find store/tmp -type f ! -name 1.1)" "" "temps"
    two_signals
    t_run 0 akv-pin -s store --verify
    t_run 0 akv-prefill -q -s store --save -o /dev/null b.tok
    t_run 0 akv-pin -s store --quota none
fi
t_begin "collecting by force: all that no pin holds"
akv-prefill -q -s store --save -o /dev/null b.tok
t_run 0 akv-pin -s store --gc --force
t_is "$(bytes_of store)" "$chain" "bytes after a collection"
t_is "$(find store/tmp -type f | wc -l)" 0 "temps"
t_run 0 akv-pin -s store --remove anchor
t_run 0 akv-pin -s store --gc --force
t_is "$(bytes_of store)" 0 "bytes without a pin"
t_begin "a collection between two requests of one run: what the run holds in memory is saved again"
mkfifo pipe
akv-prefill -s store --save -o /dev/null <pipe 2>err &
run=$!
exec 9>pipe
cat b.tok >&9
for ((i = 0; i < 400 && $(find store/objects -type f | wc -l) < 3; i++)); do sleep 0.05; done
t_run 0 akv-pin -s store --gc --force
t_is "$(bytes_of store)" 0 "bytes after the collection"
jq -c '.n = 250 | .tokens += [range(100)]' b.tok | tee longer.tok >&9
exec 9>&-
wait $run
t_is $? 0 "the exit status"
t_same err /dev/null
t_run 0 akv-pin -s store --verify
t_is "$(akv-restore -s store --stats=stats2 longer.tok >/dev/null && jq -r .cached_tokens stats2)" 250 "tokens of the longer one in the store"
t_begin "a dry run reads only: a store without the parts that a copy leaves out, and none at all"
akv-pin -q -s dry anchor <a.akv
akv-prefill -q -s dry --save -o /dev/null b.tok
find dry/objects -type f -exec touch -d '20 minutes ago' {} +
akv-prefill -q -s dry --save -o /dev/null c.tok
touch -d '20 minutes ago' dry/tmp/1.0
would='[.dry_run, .deleted, .deleted_bytes, .temps, .bytes, .pinned_bytes]'
for args in --gc "--gc --force" "--quota $chain"; do
    rm -rf copy && cp -a dry copy
    # shellcheck disable=SC2086
    akv-pin -s copy $args --json | jq -c ".dry_run = true | $would" >"would.${args//[^a-z]/}"
    # shellcheck disable=SC2086
    t_run 0 akv-pin -s dry $args --dry-run --json
    t_is "$(jq -c "$would" "$t_stdout")" "$(cat "would.${args//[^a-z]/}")" "what $args would do, and did elsewhere"
done
t_is "$(jq -c '.[1]' would.gc)" 3 "objects that $args deletes"
rm -rf copy && cp -a dry copy && rm -r copy/lock copy/tmp copy/quarantine
find copy | sort >before
t_run 0 akv-pin -s copy --gc --dry-run --json
t_is "$(jq -c "$would" "$t_stdout")" "$(jq -c '.[3] = 0' would.gc)" "what would go"
t_run 0 akv-pin -s copy --quota "$chain" --dry-run
find copy | sort >after
t_same before after
t_run 1 akv-pin -s nowhere --quota 1G --dry-run
t_err_line 'there is no store'
[ ! -e nowhere ] || t_fail "a store was made"
if t_begin "a dry run reads a store that cannot be written, and waits for a collection there" bound flock; then
    rm -rf copy && cp -a dry copy && chmod -R a-w copy
    for args in --gc "--gc --force" "--quota $chain"; do
        # shellcheck disable=SC2086
        t_run 0 t_bound akv-pin -s copy $args --dry-run --json
        t_is "$(jq -c "$would" "$t_stdout")" "$(cat "would.${args//[^a-z]/}")" "what $args would do"
        # shellcheck disable=SC2086
        t_run 5 t_bound akv-pin -s copy $args
    done
    exec 9<copy/lock && flock -x 9
    t_run 143 timeout --preserve-status -k 60 0.5 akv-pin -s copy --gc --dry-run
    exec 9<&-
    chmod 0 copy/lock # another user's: as one may read it
    t_run 0 t_bound akv-pin -s copy --gc --dry-run --json
    t_is "$(jq -c "$would" "$t_stdout")" "$(cat would.gc)" "what would go"
    chmod -R u+w copy
fi
t_begin "wrong usage"
for args in "--quota 0" "--quota 4g" "--quota 4GB" "--quota -1" "--quota ''" "--quota 1M --gc" "--gc x" "--quota 1M --force" "--dry-run --list" \
    "--quota 99999999999999999999"; do
    t_run 2 bash -c "akv-pin -s store $args"
    t_err_line '^akv-pin: '
done
t_begin "a quota that is too large: the message says the largest one, which is accepted"
for size in 524289T 16777215T 99999999999999999999999 536870913G 576460752303423489; do
    t_run 2 akv-pin -s store --quota $size
    t_err_line "^akv-pin: --quota: $size: must be at most 524288T\$"
done
for size in 524288T 576460752303423488; do
    t_run 0 akv-pin -s store --quota $size --dry-run --json
    t_out '"quota":576460752303423488[}]'
done
t_end
