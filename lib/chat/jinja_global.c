/* Global functions: range, dict, namespace, raise_exception, strftime_now. */
#include "chat/jinja_str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RANGE_MAX 100000 /* items, as in the reference's sandbox */
#define RAISED_MAX 400   /* bytes of raise_exception's text that are passed on */

static struct akv_jval range(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)self;
    int64_t first = akv_jwant_int(r, a[0], "range"), step = a[2].kind == AKV_J_MISSING ? 1 : akv_jwant_int(r, a[2], "range");
    int64_t start = a[1].kind == AKV_J_MISSING ? 0 : first,
            stop = a[1].kind == AKV_J_MISSING ? first : akv_jwant_int(r, a[1], "range");
    uint64_t n = 0;
    if (!step)
        akv_jdie(r, "range: the step must not be 0");
    if (step > 0 && stop > start)
        n = ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step + 1;
    else if (step < 0 && stop < start)
        n = ((uint64_t)start - (uint64_t)stop - 1) / (0 - (uint64_t)step) + 1;
    if (n > RANGE_MAX)
        akv_jdie(r, "range: more than %d items", RANGE_MAX);
    struct akv_jrange *g = akv_jalloc(&r->arena, sizeof *g);
    *g = (struct akv_jrange){.start = start, .stop = stop, .step = step, .n = (int64_t)n};
    return (struct akv_jval){.kind = AKV_J_RANGE, .u.r = g};
}

/* dict(mapping or pairs, key=value, ...). */
static struct akv_jval make_dict(struct akv_jrun *r, const struct akv_jargs *args, enum akv_jkind kind)
{
    struct akv_jval out = akv_jdict_new(r, kind), x;
    if (args->n > 1)
        akv_jdie(r, "dict: too many arguments");
    if (args->n) {
        struct akv_jiter it = akv_jiterate(r, args->v[0]);
        while (akv_jnext(r, &it, &x)) {
            if (args->v[0].kind == AKV_J_DICT) {
                akv_jdict_set(r, out.u.d, x, *akv_jdict_find(r, args->v[0].u.d, x));
                continue;
            }
            struct akv_jval pair = akv_jto_list(r, x, AKV_JL_LIST);
            if (pair.u.l->n != 2)
                akv_jdie(r, "dict: needs pairs");
            akv_jdict_set(r, out.u.d, pair.u.l->v[0], pair.u.l->v[1]);
        }
    }
    for (size_t i = 0; i < args->n_kw; i++)
        akv_jdict_set(r, out.u.d, (struct akv_jval){.kind = AKV_J_STR, .u.s = args->kw[i].name}, args->kw[i].val);
    return out;
}

static struct akv_jval dict(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args)
{
    (void)self;
    return make_dict(r, args, AKV_J_DICT);
}

static struct akv_jval space(struct akv_jrun *r, struct akv_jval self, const struct akv_jargs *args)
{
    (void)self;
    return make_dict(r, args, AKV_J_SPACE);
}

static struct akv_jval raise(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)self;
    const struct akv_jstr *s = akv_jto_str(r, a[0]).u.s;
    size_t n = s->len;
    if (n > RAISED_MAX)
        for (n = RAISED_MAX; n && ((uint8_t)s->p[n] & 0xc0) == 0x80;)
            n--;
    akv_jfail_as(&r->fault, AKV_E_INPUT, "template: %.*s", (int)n, s->p);
}

/* ---- dates: English names, whatever the locale is ---- */

struct date {
    int64_t now, year;
    int month, day, hour, minute, second, yday, wday; /* month and day from 1, yday and wday from 0, Sunday 0 */
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static struct date date_of(int64_t now)
{
    struct date d = {.now = now};
    int64_t days = floor_div(now, 86400), second = now % 86400 + (now % 86400 < 0 ? 86400 : 0);
    d.hour = (int)(second / 3600);
    d.minute = (int)(second / 60 % 60);
    d.second = (int)(second % 60);
    d.wday = (int)(days + 4 - floor_div(days + 4, 7) * 7);
    /* proleptic Gregorian, counted in 400-year eras of years that begin in March */
    int64_t z = days + 719468, era = floor_div(z, 146097), doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    d.day = (int)(doy - (153 * mp + 2) / 5 + 1);
    d.month = (int)(mp < 10 ? mp + 3 : mp - 9);
    d.year = yoe + era * 400 + (d.month <= 2);
    bool leap = (d.year % 4 == 0 && d.year % 100 != 0) || d.year % 400 == 0;
    d.yday = (int)(d.month <= 2 ? doy - 306 : doy + 59 + leap);
    return d;
}

static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};
static const char *const weekdays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

/* A number of some width. fill: ' ' or '0'. flag: '-' no padding, '_' spaces, '0' zeros, else as is usual. */
static void put_number(struct akv_jrun *r, struct akv_jtext *t, int64_t v, int width, char fill, char flag)
{
    char text[32];
    bool spaces = flag == '_' || (flag != '0' && fill == ' ');
    if (flag == '-')
        width = 0;
    if (spaces)
        snprintf(text, sizeof text, "%*" PRId64, width, v);
    else
        snprintf(text, sizeof text, "%0*" PRId64, width, v);
    akv_jputs(r, t, text);
}

static void put_name(struct akv_jrun *r, struct akv_jtext *t, const char *name, size_t n, char flag)
{
    for (size_t i = 0; i < n && name[i]; i++) {
        char c = name[i];
        if (flag == '^' && c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        akv_jput(r, t, &c, 1);
    }
}

static void put_date(struct akv_jrun *r, struct akv_jtext *t, const struct date *d, const char *fmt, size_t n);

/* One conversion; false if there is none of that letter. */
static bool put_field(struct akv_jrun *r, struct akv_jtext *t, const struct date *d, char c, char flag)
{
    static const struct {
        char c;
        const char *fmt;
    } composed[] = {{'D', "%m/%d/%y"}, {'F', "%Y-%m-%d"}, {'T', "%H:%M:%S"},    {'R', "%H:%M"},
                    {'x', "%m/%d/%y"}, {'X', "%H:%M:%S"}, {'r', "%I:%M:%S %p"}, {'c', "%a %b %e %H:%M:%S %Y"}};
    int hour12 = d->hour % 12 ? d->hour % 12 : 12;
    for (size_t i = 0; i < sizeof composed / sizeof *composed; i++) {
        if (composed[i].c == c) {
            put_date(r, t, d, composed[i].fmt, strlen(composed[i].fmt));
            return true;
        }
    }
    switch (c) {
    case 'Y':
        put_number(r, t, d->year, 0, '0', flag);
        break;
    case 'y':
        put_number(r, t, d->year - floor_div(d->year, 100) * 100, 2, '0', flag);
        break;
    case 'C':
        put_number(r, t, floor_div(d->year, 100), 2, '0', flag);
        break;
    case 'm':
        put_number(r, t, d->month, 2, '0', flag);
        break;
    case 'd':
        put_number(r, t, d->day, 2, '0', flag);
        break;
    case 'e':
        put_number(r, t, d->day, 2, ' ', flag);
        break;
    case 'H':
        put_number(r, t, d->hour, 2, '0', flag);
        break;
    case 'k':
        put_number(r, t, d->hour, 2, ' ', flag);
        break;
    case 'I':
        put_number(r, t, hour12, 2, '0', flag);
        break;
    case 'l':
        put_number(r, t, hour12, 2, ' ', flag);
        break;
    case 'M':
        put_number(r, t, d->minute, 2, '0', flag);
        break;
    case 'S':
        put_number(r, t, d->second, 2, '0', flag);
        break;
    case 'f':
        akv_jputs(r, t, "000000");
        break;
    case 'j':
        put_number(r, t, d->yday + 1, 3, '0', flag);
        break;
    case 'u':
        put_number(r, t, d->wday ? d->wday : 7, 1, '0', flag);
        break;
    case 'w':
        put_number(r, t, d->wday, 1, '0', flag);
        break;
    case 'U':
        put_number(r, t, (d->yday + 7 - d->wday) / 7, 2, '0', flag);
        break;
    case 'W':
        put_number(r, t, (d->yday + 7 - (d->wday + 6) % 7) / 7, 2, '0', flag);
        break;
    case 's':
        put_number(r, t, d->now, 0, '0', flag);
        break;
    case 'B':
        put_name(r, t, months[d->month - 1], SIZE_MAX, flag);
        break;
    case 'b':
    case 'h':
        put_name(r, t, months[d->month - 1], 3, flag);
        break;
    case 'A':
        put_name(r, t, weekdays[d->wday], SIZE_MAX, flag);
        break;
    case 'a':
        put_name(r, t, weekdays[d->wday], 3, flag);
        break;
    case 'p':
        akv_jputs(r, t, d->hour < 12 ? "AM" : "PM");
        break;
    case 'z':
        akv_jputs(r, t, "+0000");
        break;
    case 'Z':
        akv_jputs(r, t, "UTC");
        break;
    case 'n':
        akv_jputs(r, t, "\n");
        break;
    case 't':
        akv_jputs(r, t, "\t");
        break;
    case '%':
        akv_jputs(r, t, "%");
        break;
    default:
        return false;
    }
    return true;
}

static void put_date(struct akv_jrun *r, struct akv_jtext *t, const struct date *d, const char *fmt, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t at = i + 1;
        char flag = 0;
        if (fmt[i] == '%' && at < n && strchr("-_0^", fmt[at]) && fmt[at])
            flag = fmt[at++];
        if (fmt[i] == '%' && at < n && put_field(r, t, d, fmt[at], flag)) {
            i = at + 1;
        } else {
            akv_jput(r, t, fmt + i, 1); /* no conversion: stands for itself */
            i++;
        }
        akv_jtick(r, 1);
    }
}

static struct akv_jval strftime_now(struct akv_jrun *r, struct akv_jval self, const struct akv_jval *a)
{
    (void)self;
    const struct akv_jstr *fmt = akv_jwant_str(r, a[0], "strftime_now");
    struct date d = date_of(r->now);
    struct akv_jtext t = {0};
    put_date(r, &t, &d, fmt->p, fmt->len);
    return akv_jstr_of(r, &t);
}

static const struct akv_jfunc globals[] = {
    {"range", "start,stop,step", 1, range, NULL},
    {"dict", NULL, 0, NULL, dict},
    {"namespace", NULL, 0, NULL, space},
    {"raise_exception", "message", 1, raise, NULL},
    {"strftime_now", "format", 1, strftime_now, NULL},
};

const struct akv_jfunc *akv_jglobal_find(const struct akv_jstr *name)
{
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        if (akv_jstr_is(name, globals[i].name))
            return &globals[i];
    }
    return NULL;
}
