# The EXAMPLES of the man pages are commands that work: each is run as it stands, in the order of its page.
#
# A command is a literal line of the section that begins with "$ "; one that should not end with 0 says "# exit status N". The files that
# they name are made here. In one page all run in one directory, each in a shell of its own, pipelines with pipefail.
. "$(dirname "$0")/../lib.sh"

# written PAGE: its commands as they stand in the source. commands PAGE: as they are read and typed; "\e" is how mdoc writes a backslash.
written() {
    sed -n '/^\.Sh EXAMPLES/,/^\.Sh SEE ALSO/s/^\$ //p' "$1"
}
commands() {
    written "$1" | sed 's/\\e/\\/g'
}

# What the examples expect to find.
prepare() {
    local system='You are a careful assistant that plans the work of a small workshop. Answer in one sentence.'
    jq -nc --arg s "$system" '{id: "r1", messages: [{role: "system", content: $s}, {role: "user", content: "What is a KV cache?"}],
        max_tokens: 16}' >chat.json
    jq -c '.id = "r2" | .messages[1].content = "And what is a page of it?"' chat.json >chat2.json
    cat chat.json chat2.json >requests.jsonl
    jq -c '.messages[0].content = "Today is 2026-01-15. " + .messages[0].content' chat.json >dated.json
    cp chat.json turn1.json
    jq -c '.id = "r2" | .messages += [{role: "assistant", content: "A memory."}, {role: "user", content: "Of what?"}]' chat.json >turn2.json
    printf '%s' '{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ "\n" }}{% endfor %}' >my.jinja
    jq -c '{model: "m", max_tokens: 8, system: .messages[0].content, messages: .messages[1:]}' chat.json >messages.json
    printf 'User: What is a KV cache?\nAssistant:\n' >talk.txt
    echo '{"session": "s1", "rules": "Be careful.", "steps": [{"ask": "What is here?"}, {"run": "ls", "got": "a b"}]}' >log.json
    cp "$TOP/examples/adapter.jq" .
    # the page that uses it prints it
    sed -n '/^\\&\.messages += /,/^\.Ed/{/^\.Ed/d;s/^\\&//;p}' "$TOP/man/akv-gen.1" >next.jq
}

# What tests/tools/mkmodel made is the model of all.
export AKV_MODEL=$TINY
for page in "$TOP"/man/*.1 "$TOP"/man/akv.7; do
    name=$(basename "$page")
    t_begin "the examples of $name work as written" tiny jq zstd || continue
    n=0
    mkdir "$name" && cd "$name" && prepare
    while IFS= read -r line; do
        n=$((n + 1))
        want=0
        if [[ $line =~ '# exit status '([0-9]+)$ ]]; then want=${BASH_REMATCH[1]}; fi
        t_sh "$want" "$line" </dev/null
        [ "$want" -eq 0 ] || [ -s "$t_stderr" ] || [ -s "$t_stdout" ] || t_fail "says nothing about its exit status"
    done < <(commands "$page")
    [ "$n" -gt 0 ] || t_fail "no commands were found"
    ! written "$page" | grep -q '\\[^e]' || t_fail "a backslash is written otherwise than as \\e"
    cd "$T" || exit 1
done
t_end
