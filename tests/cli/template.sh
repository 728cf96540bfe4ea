# Chat templates at the command line: which one is used, what it may do, and what becomes of its errors.
. "$(dirname "$0")/../lib.sh"
export AKV_MODEL=$TINY
echo '{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"reasoning_content":"hm"}],"id":"q"}' >chat.json

t_begin "the text of raise_exception reaches the user, on one line; requests after it are answered" tiny || { t_end; exit; }
printf '%s' '{% if messages[0].content == "Hi" %}{{ raise_exception("Conversation roles must\nalternate: " + messages[0].role) }}{% endif %}ok' >raises.jinja
jq -c . chat.json >two.json
echo '{"messages":[{"role":"user","content":"Ho"}]}' >>two.json
t_run 3 akv-tokenize --render --template raises.jinja two.json
t_err '^akv-tokenize: two.json: request 1: template: Conversation roles must\\x0aalternate: user$'
t_is "$(cat "$t_stdout")" ok "what is printed"
t_is "$(wc -l <"$t_stderr")" 1 "lines of errors"

t_begin "a template without end, one that needs too much, one that does not parse: errors with the line, soon" tiny
endless='{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}'
while IFS='|' read -r pattern text; do
    printf '%b' "$text" >bad.jinja
    t_run 3 timeout 60 akv-tokenize --template bad.jinja chat.json
    t_err_line "^akv-tokenize: chat.json: request 1: template line $pattern"
done <<LIST
2: .*steps|\n$endless
1: .*nested|{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}
1: .*memory|{% set ns = namespace(s="x" * 1000000) %}{% for i in range(12) %}{% set ns.s = ns.s + ns.s %}{% endfor %}
3: |\n\n{% if %}
1: .*is undefined|{{ open("/etc/passwd") }}
1: |{{ messages.__class__.__mro__ }}
1: |{% include "/etc/passwd" %}
LIST

t_begin "--raw-messages gives them as they are written; without it null keys go and thinking has both its names" tiny
echo '{{ messages | tojson }}' >all.jinja
t_run 0 akv-tokenize --render --template all.jinja chat.json
t_is "$(cat "$t_stdout")" '[{"role": "user", "content": "Hi"}, {"thinking": "hm", "role": "assistant", "reasoning_content": "hm"}]' "messages"
t_run 0 akv-tokenize --render --raw-messages --template all.jinja chat.json
t_is "$(cat "$t_stdout")" '[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "reasoning_content": "hm"}]' "messages"

if t_begin "a model with named templates: the default one, each by its name, and a name that there is not" tiny python3; then
    "$AKV_BUILD/tests/mkmodel" -o plain.gguf --vocab-only
    python3 - <<'P'
import struct
data = open("plain.gguf", "rb").read()
def text(s): return struct.pack("<Q", len(s)) + s.encode()
more = b"".join(text("tokenizer.chat_template." + name) + struct.pack("<I", 8) + text(value)
                for name, value in (("tool_use", "[tools {{ messages[0].content }}]"), ("rag", "[rag {{ documents[0].text }}]")))
version, tensors, keys = struct.unpack("<IQQ", data[4:24])
open("named.gguf", "wb").write(data[:4] + struct.pack("<IQQ", version, tensors, keys + 2) + more + data[24:])
P
    echo '{"messages":[{"role":"user","content":"Hi"}],"documents":[{"text":"D"}]}' >rag.json
    t_run 0 akv-tokenize -m named.gguf --render rag.json
    t_is "$(cat "$t_stdout")" "$(akv-tokenize -m plain.gguf --render rag.json)" "the default"
    t_run 0 akv-tokenize -m named.gguf --render --template-name tool_use rag.json
    t_is "$(cat "$t_stdout")" "[tools Hi]" "tool_use"
    t_run 0 akv-tokenize -m named.gguf --render --template-name rag rag.json
    t_is "$(cat "$t_stdout")" "[rag D]" "rag"
    t_run 3 akv-tokenize -m named.gguf --template-name coder rag.json
    t_err_line '^akv-tokenize: rag.json: request 1: the model has no chat template named "coder"$'
    t_run 2 akv-tokenize -m named.gguf --template-name rag --template all.jinja rag.json
    # the digest of the tokenizer says nothing of templates
    t_is "$(akv-tokenize -m named.gguf rag.json 2>/dev/null | jq -r .tok)" "$(akv-tokenize -m plain.gguf rag.json 2>/dev/null | jq -r .tok)" "digest"
fi
t_end
