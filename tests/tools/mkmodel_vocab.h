/* The vocabulary of mkmodel's models: a small byte-level BPE learnt from a built-in text, and a chat template. */
#ifndef AKV_TESTS_MKMODEL_VOCAB_H
#define AKV_TESTS_MKMODEL_VOCAB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define N_SPECIAL 3u
#define N_MERGES 125u
#define N_VOCAB (N_SPECIAL + 256u + N_MERGES)

static const char *const specials[N_SPECIAL] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

static const char chat_template[] = "{% for message in messages %}"
                                    "{% if loop.first and messages[0]['role'] != 'system' %}"
                                    "{{ '<|im_start|>system\nYou are a small model made for tests.<|im_end|>\n' }}"
                                    "{% endif %}"
                                    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
                                    "{% endfor %}"
                                    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/* What the merges are learnt from: the kind of text that the tests send. */
static const char corpus[] =
    "You are a helpful assistant that plans the work of a small workshop. Answer in short sentences and call a tool when the "
    "question "
    "needs one. The tools are described below, each with its name, its parameters and what it returns. The weather tool takes the "
    "name "
    "of a city and returns the temperature in degrees and the chance of rain. The calendar tool takes a date and returns the list "
    "of "
    "appointments of that day. The search tool takes a question and returns the three best answers with the place where they were "
    "found. "
    "When the user asks for the time of a meeting, look into the calendar first, then answer with the time and the name of the "
    "room. "
    "What is the weather in the city today? It is warm and there is no chance of rain this morning. Then we should meet outside "
    "after "
    "lunch. Please write a short note to the others and tell them where to find us. The system reads the message, the model writes "
    "the "
    "answer, and the store keeps the pages that both of them have seen before, so that the next question is answered in less time. "
    "name: string, type: object, required: true, description: the name of the function and the values that it takes. ";

struct vocab {
    char text[N_VOCAB][64]; /* in the byte alphabet of GPT-2; learnt ones join two of at most 31 bytes */
    char merges[N_MERGES][128];
    uint16_t byte_id[256];
};

/* Bytes that print stand for themselves, the others for code points from 256 on: so no token holds a space or a control byte. */
static void alphabet(struct vocab *v)
{
    unsigned id = N_SPECIAL;
    for (int pass = 0; pass < 2; pass++) {
        unsigned other = 256;
        for (unsigned b = 0; b < 256; b++) {
            bool prints = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
            unsigned cp = prints ? b : other++;
            if (prints != (pass == 0))
                continue;
            char *t = v->text[id];
            if (cp < 128) {
                t[0] = (char)cp;
            } else {
                t[0] = (char)(0xc0 | cp >> 6);
                t[1] = (char)(0x80 | (cp & 63));
            }
            v->byte_id[b] = (uint16_t)id++;
        }
    }
}

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Pairs are counted within words: letters with the space before them. The rest stays single bytes. */
static size_t split_words(const struct vocab *v, uint16_t *ids, bool *starts)
{
    size_t n = sizeof corpus - 1;
    for (size_t i = 0; i < n; i++) {
        char c = corpus[i], before = i ? corpus[i - 1] : ' ';
        ids[i] = v->byte_id[(unsigned char)c];
        starts[i] = !(letter(c) && (letter(before) || before == ' '));
    }
    return n;
}

/* The most frequent pair; among equals the one with the lowest ids. */
static bool best_pair(const uint16_t *ids, const bool *starts, size_t n, uint16_t pair[2])
{
    static uint16_t count[N_VOCAB][N_VOCAB];
    memset(count, 0, sizeof count);
    for (size_t i = 1; i < n; i++)
        if (!starts[i])
            count[ids[i - 1]][ids[i]]++;
    unsigned best = 1;
    for (unsigned a = 0; a < N_VOCAB; a++)
        for (unsigned b = 0; b < N_VOCAB; b++)
            if (count[a][b] > best) {
                best = count[a][b];
                pair[0] = (uint16_t)a;
                pair[1] = (uint16_t)b;
            }
    return best > 1;
}

static size_t apply_merge(uint16_t *ids, bool *starts, size_t n, const uint16_t pair[2], uint16_t id)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++, out++) {
        starts[out] = starts[i];
        if (i + 1 < n && ids[i] == pair[0] && ids[i + 1] == pair[1] && !starts[i + 1]) {
            ids[out] = id;
            i++;
        } else {
            ids[out] = ids[i];
        }
    }
    return out;
}

static bool make_vocab(struct vocab *v)
{
    static uint16_t ids[sizeof corpus];
    static bool starts[sizeof corpus];
    memset(v, 0, sizeof *v);
    for (unsigned i = 0; i < N_SPECIAL; i++)
        snprintf(v->text[i], sizeof v->text[i], "%s", specials[i]);
    alphabet(v);
    size_t n = split_words(v, ids, starts);
    for (unsigned m = 0; m < N_MERGES; m++) {
        uint16_t pair[2] = {0, 0}, id = (uint16_t)(N_SPECIAL + 256 + m);
        if (!best_pair(ids, starts, n, pair) || strlen(v->text[pair[0]]) > 31 || strlen(v->text[pair[1]]) > 31)
            return false;
        const char *a = v->text[pair[0]], *b = v->text[pair[1]];
        snprintf(v->merges[m], sizeof v->merges[m], "%s %s", a, b);
        memcpy(v->text[id], a, strlen(a));
        memcpy(v->text[id] + strlen(a), b, strlen(b) + 1);
        n = apply_merge(ids, starts, n, pair, id);
    }
    return true;
}

#endif
