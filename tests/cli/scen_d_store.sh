# Stores among many processes, on full and foreign disks, and of other versions.
. "$(dirname "$0")/../lib.sh"
t_needs tiny jq

export AKV_MODEL=$TINY
text='Please write a short note to the others and tell them where to find us. When the user asks for the time of a meeting, look into
the calendar first, then answer with the time and the name of the room. It is warm and there is no chance of rain this morning.'
printf '%s' "$text" | akv-tokenize --raw | jq -c '{akv, id: "a", n, tokens}' >a.tok || exit 1
jq -c '{akv, id: "b", n: 140, tokens: (.tokens[:70] + .tokens[3:73])}' a.tok >b.tok
n=$(jq .n a.tok)
for name in a b; do
    akv-prefill -o $name.akv $name.tok && akv-gen -n 20 $name.tok >$name.text || exit 1
done
akv-pin -q -s base a <a.akv && akv-pin -s base --export a >a.pages && akv-restore -q -s base -o a.restored a.tok || exit 1
akv-pin -q -s other b <b.akv && akv-pin -s other --export b >b.pages || exit 1

# The files of a store but for its lock: names and contents.
content() {
    (cd "$1" && find . -type f ! -name lock | LC_ALL=C sort | while read -r f; do sha256sum "$f"; done)
}
no_temps() {
    t_is "$(find store/tmp . -maxdepth 1 -name '.akv-*' -o -path '*/tmp/*' -type f)" "" "temporary files"
}
# sound STORE: it verifies, and what is in it gives a's pages.
sound() {
    mapfile -t objects < <(find "$1/objects" -type f)
    [ ${#objects[@]} -eq 0 ] || t_run 0 akv-inspect --verify "${objects[@]}"
    t_run 0 akv-prefill -q -s "$1" -o warm.akv a.tok
    t_same a.akv warm.akv
}

t_begin "D3 sixteen writers of the same and of other pages at once, and a reader that looks meanwhile"
for i in {1..16}; do
    {
        case $((i % 4)) in
        0) akv-pin -q -s store "pin-$i" <a.akv ;;
        1) akv-pin -q -s store "pin-$i" <b.akv ;;
        2) akv-prefill -q -s store --save -o "out.$i" a.tok && cmp "out.$i" a.akv ;;
        3) akv-gen -q -s store --save -n 20 b.tok | cmp - b.text ;;
        esac && echo right
    } >"log.$i" 2>&1 &
done
for i in {1..8}; do
    t_sh 0 "akv-gen -q -s store -n 20 a.tok"
    t_out_is a.text
done
wait
for i in {1..16}; do t_is "$(cat "log.$i")" right "writer $i"; done
sound store
no_temps
t_is "$(find store/quarantine -type f)" "" "what is in quarantine"
for i in {4..16..4}; do
    t_run 0 akv-pin -s store --export "pin-$i"
    t_out_is a.pages
    t_run 0 akv-pin -s store --export "pin-$((i - 3))"
    t_out_is b.pages
done

t_begin "D4 a limit on file sizes in mid-save: exit 5, the text is there, nothing is left behind"
rm -rf store
t_run 5 bash -c 'ulimit -f 8; exec akv-gen -q -s store --save -n 20 a.tok'
t_err '^akv-gen: store/tmp/[^ ]*: cannot write: File too large$'
t_out_is a.text
no_temps
sound store
t_run 5 bash -c 'ulimit -f 8; exec akv-pin -q -s store name <a.akv'
t_err_line '^akv-pin: standard input: record 2: store/tmp/[^ ]*: cannot write: File too large$'
t_run 0 akv-pin -s store --list
t_out_is /dev/null
cp b.akv out.akv
t_run 5 bash -c 'ulimit -f 8; exec akv-prefill -o out.akv a.tok'
t_err_line '^akv-prefill: out\.akv: cannot write: File too large$'
t_same out.akv b.akv
no_temps
if t_begin "D4 a full disk in mid-save: exit 5, the text is there, what was there stays" unshare &&
    mkdir -p disk && unshare -rm mount -t tmpfs none disk 2>/dev/null; then
    cat >on_disk.sh <<'SH'
mount -t tmpfs -o size=1m none disk || exit 99
cp -r base disk/store && cp b.akv disk/out.akv || exit 99
free=$(df -k --output=avail disk | tail -n 1)
head -c $(((free - $1) * 1024)) /dev/zero >disk/filler || exit 99
akv-gen -q -s disk/store --save -n 20 b.tok >text 2>err
echo $? >status
akv-prefill -q -s disk/store -o warm.akv a.tok
echo $? >warm.status
akv-prefill -q -o disk/out.akv a.tok 2>out.err
echo $? >out.status
cp -r disk/. left
SH
    for room in 0 4 16 32 36; do # for nothing, for a part of an object, for all but the last
        rm -rf left && mkdir left
        t_run 0 unshare -rm bash on_disk.sh $room
        t_is "$(cat status) $(cat warm.status) $(cat out.status)" "5 0 5" "the exit statuses with $room KiB left"
        t_grep err "what akv-gen says" '^akv-gen: disk/store.*: No space left on device$'
        t_grep out.err "what akv-prefill says" '^akv-prefill: disk/out.akv: cannot write: No space left on device$'
        t_same text b.text
        t_same warm.akv a.akv
        t_same left/out.akv b.akv
        t_is "$(find left -path '*/tmp/*' -o -name '.akv-*')" "" "temporary files with $room KiB left"
        sound left/store
    done
fi

t_begin "D5 a store that is not there: a note to readers, made by writers"
rm -rf store
t_run 0 akv-restore -s none/store -o out.akv a.tok
t_err '^akv-restore: none/store: there is no store$'
t_run 0 akv-gen -n 20 -s none/store --stats=stats a.tok
t_out_is a.text
t_is "$(jq -c '[.hit, .miss]' stats)" '["none","the store cannot be used or does not exist yet"]' "the stats"
[ ! -e none ] || t_fail "reading has made it"
t_run 1 akv-pin -s none/store --export a
t_run 0 akv-gen -q -n 20 -s none/store --save a.tok
sound none/store
t_begin "D5 a file, a directory of something else, a directory that others can write"
t_run 5 akv-gen -s a.tok a.tok
t_err_line '^akv-gen: a\.tok: cannot open the store: Not a directory$'
t_run 5 akv-gen -n 20 -s a.tok --save a.tok
t_err '^akv-gen: a\.tok: cannot open the store: Not a directory$'
t_out_is a.text
mkdir photos && touch photos/one.jpg
t_run 2 akv-pin -s photos name <a.akv
t_err_line '^akv-pin: photos: no store can be made here: it holds other things'
for mode in 0720 0702 0777; do
    cp -r base shared && chmod $mode shared
    for command in 'akv-gen -s shared a.tok' 'akv-restore -s shared a.tok' 'akv-pin -s shared --list' 'akv-pin -s shared x <a.akv'; do
        t_sh 5 "$command"
        t_err_line '^akv-[a-z]*: shared: not trusted: it is writable by others \(mode 0[0-9]*\)$'
    done
    chmod 0700 shared
    chmod $mode shared/refs/*
    t_run 5 akv-pin -s shared --list
    t_err_line '^akv-pin: shared/refs/[0-9a-f]*: not trusted: it belongs to another user or is writable by others$'
    chmod 0700 shared/refs/*
    chmod $mode shared/objects/??
    t_run 0 akv-gen -n 20 -s shared a.tok
    t_err 'not trusted'
    t_out_is a.text
    rm -rf shared
done
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent XDG_CACHE_HOME=)
chmod 755 .
user=another-user
"${nobody[@]}" test -x "$AKV_BUILD/akv-gen" -a -r a.tok 2>/dev/null && user=true
if t_begin "D5 another user: root's store is read, no other's, and none is written" "$user"; then
    cp -r base shared && chmod -R go+rX shared && mkdir -m 777 theirs
    before=$(content shared)
    t_run 0 "${nobody[@]}" akv-restore -s shared a.tok
    t_out_is a.restored
    t_run 0 "${nobody[@]}" akv-gen -n 20 -s shared --stats a.tok
    t_out_is a.text
    t_is "$(jq .cached_tokens "$t_stderr")" $((n - 1)) "cached_tokens"
    t_run 0 "${nobody[@]}" akv-pin -s shared --export a
    t_out_is a.pages
    t_run 5 "${nobody[@]}" akv-gen -n 20 -s shared --save b.tok
    t_out_is b.text
    t_err '^akv-gen: shared/.*: Permission denied$'
    t_sh 5 "${nobody[*]} akv-pin -s shared new <b.akv"
    t_err_line '^akv-pin: .*shared/.*: Permission denied$'
    t_run 5 "${nobody[@]}" akv-pin -s shared --remove a
    t_err_line '^akv-pin: shared/.*: Permission denied$'
    t_is "$(content shared)" "$before" "the content of the store"
    chmod -R go-rwx shared
    t_run 5 "${nobody[@]}" akv-gen -s shared a.tok
    t_err_line '^akv-gen: shared: cannot open the store: Permission denied$|^akv-gen: shared/VERSION: cannot open: Permission denied$'
    t_run 5 "${nobody[@]}" akv-gen -n 20 -s shared --save a.tok
    t_out_is a.text
    chown -R 65533 shared && chmod -R go+rX shared
    t_run 5 "${nobody[@]}" akv-gen -s shared a.tok
    t_err_line '^akv-gen: shared: not trusted: it belongs to another user \(uid 65533\)$'
fi

t_begin "D7 two processes pin one name again and again: each time one of them, whole"
rm -rf store
for i in {1..10}; do
    akv-pin -q -s store name <a.akv 2>>log &
    akv-pin -q -s store name <b.akv 2>>log &
    t_run 0 akv-gen -q -s store -n 20 a.tok
    t_out_is a.text
    wait
    t_run 0 akv-pin -s store --export name
    cmp -s "$t_stdout" a.pages || cmp -s "$t_stdout" b.pages || t_fail "the pin is neither of the two"
done
t_is "$(cat log)" "" "what they said"
t_is "$(akv-pin -s store --list | wc -l)" 1 "pins"
t_begin "D7 a pin is taken away while others restore it: they end, with its pages or without any"
for i in {1..10}; do
    akv-pin -q -s store name <a.akv
    akv-restore -q -s store -o out.1 a.tok 2>err.1 &
    akv-pin -s store --export name -o out.2 2>err.2 &
    export=$!
    akv-pin -q -s store --remove name
    wait $export
    case $? in
    0) t_same out.2 a.pages ;;
    1) t_grep err.2 stderr '^akv-pin: name: no such pin$' ;;
    *) t_fail "export: $(cat err.2)" ;;
    esac
    wait
    t_is "$(cat err.1)" "" "what akv-restore says"
    t_run 0 akv-prefill out.1
    t_out_is a.akv
done

t_begin "D13 a store of the next version: refused with both versions, nothing is touched"
cp -r base next && echo 'akv-store 2' >next/VERSION
before=$(content next)
for command in 'akv-gen -s next a.tok' 'akv-restore -s next a.tok' 'akv-prefill -s next a.tok' 'akv-pin -s next --list' 'akv-pin -s next x <a.akv' \
    'akv-pin -s next --remove a'; do
    t_sh 4 "$command"
    t_err_line '^akv-[a-z]*: next: the store has version 2, this akv knows version 1$'
done
t_run 4 akv-gen -n 20 -s next --save a.tok
t_err '^akv-gen: next: the store has version 2, this akv knows version 1$'
t_out_is a.text
t_is "$(content next)" "$before" "the content of the store"

# What a save writes to the store: the objects' bytes, beside those of the stream.
size() {
    find store/objects -type f -exec stat -c %s {} + | awk '{ n += $1 } END { print n + 0 }'
}
t_begin "D14 two conversations with one beginning: its pages are stored once, and bytes_written says so"
rm -rf store stats
t_run 0 akv-gen -q -s store --save -n 1 --stats=stats a.tok
once=$(content store/objects) first=$(size)
t_run 0 akv-gen -q -s store --save -n 1 --stats=stats a.tok
t_is "$(content store/objects)" "$once" "the objects after the same again"
t_run 0 akv-gen -q -s store --save -n 1 --stats=stats b.tok
t_is "$(content store/objects | grep -cxF "$once")" "$(wc -l <<<"$once")" "objects of the first that stayed"
t_is "$(jq .bytes_written stats | tr '\n' ' ')" "$first 0 $(($(size) - first)) " "bytes_written"
t_is "$(jq .cached_tokens stats | tail -n 1)" 64 "tokens that the second found"
t_end
