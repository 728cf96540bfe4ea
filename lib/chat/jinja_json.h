/* Inside the template interpreter: how tojson writes. */
#ifndef AKV_CHAT_JINJA_JSON_H
#define AKV_CHAT_JINJA_JSON_H

#include "chat/jinja_value.h"

struct akv_jdump {
    const struct akv_jstr *indent;     /* of one level; NULL: all on one line */
    const struct akv_jstr *item, *key; /* separators */
    bool ascii, sort;
};

void akv_jput_json(struct akv_jrun *r, struct akv_jtext *t, struct akv_jval v, const struct akv_jdump *how, uint32_t level);

#endif
