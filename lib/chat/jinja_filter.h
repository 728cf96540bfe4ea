/* Inside the template interpreter: between the files of filters. */
#ifndef AKV_CHAT_JINJA_FILTER_H
#define AKV_CHAT_JINJA_FILTER_H

#include "chat/jinja_value.h"

const struct akv_jfunc *akv_jseq_filter(const struct akv_jstr *name); /* filters on sequences; NULL: none of that name */
struct akv_jval akv_jitems(struct akv_jrun *r, struct akv_jval dict); /* dict.items() */
double akv_jround(struct akv_jrun *r, double f, int digits);          /* to decimal digits, half to even */

#endif
