/* The keyspace of the model: keys in the order in which they were made, each a row of items,
 * whatever its type. Slow for thousands of them, plain for the dozens that there are. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

/* A test without memory can only end. */
static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* ---- texts ---- */

void model_set(dlk_arg *to, const char *data, size_t size)
{
    char *copy = must(malloc(size + 1));
    if (size)
        memcpy(copy, data, size);
    copy[size] = '\0';
    free((char *)to->data);
    *to = (dlk_arg){copy, size};
}

bool model_same(const dlk_arg *a, const dlk_arg *b)
{
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

static void clear(dlk_arg *text)
{
    free((char *)text->data);
    *text = (dlk_arg){0};
}

/* ---- items ---- */

model_item *model_item_of(const model_key *key, const dlk_arg *name)
{
    for (size_t i = 0; key && i < key->count; i++)
        if (model_same(&key->items[i].name, name))
            return &key->items[i];
    return NULL;
}

model_item *model_insert(model_key *key, size_t at)
{
    if (key->count == key->room) {
        key->room = key->room ? key->room * 2 : 4;
        key->items = must(realloc(key->items, key->room * sizeof(*key->items)));
    }
    memmove(&key->items[at + 1], &key->items[at],
            (key->count - at) * sizeof(*key->items));
    key->items[at] = (model_item){0};
    key->count++;
    return &key->items[at];
}

static void free_item(model_item *item)
{
    clear(&item->name);
    clear(&item->value);
}

void model_remove(model *m, model_key *key, size_t at)
{
    free_item(&key->items[at]);
    key->count--;
    memmove(&key->items[at], &key->items[at + 1],
            (key->count - at) * sizeof(*key->items));
    if (key->count == 0)
        (void)model_delete(m, &key->name); /* it is there */
}

static int order(const model_item *item, double score, const dlk_arg *name)
{
    if (item->score != score)
        return item->score < score ? -1 : 1;
    size_t less = item->name.size < name->size ? item->name.size : name->size;
    int by_name = memcmp(item->name.data, name->data, less);
    return by_name ? by_name : item->name.size < name->size ? -1 : 1;
}

void model_put_score(model *m, model_key *key, const dlk_arg *name, double score)
{
    (void)m;
    dlk_arg kept = {0};
    model_item *old = model_item_of(key, name);
    model_set(&kept, name->data, name->size); /* it may be the one that goes */
    if (old) {
        free_item(old);
        size_t at = (size_t)(old - key->items);
        key->count--;
        memmove(old, old + 1, (key->count - at) * sizeof(*old));
    }
    size_t at = 0;
    while (at < key->count && order(&key->items[at], score, &kept) < 0)
        at++;
    model_item *item = model_insert(key, at);
    item->name = kept;
    item->score = score;
}

/* ---- keys ---- */

static void free_key(model_key *key)
{
    for (size_t i = 0; i < key->count; i++)
        free_item(&key->items[i]);
    free(key->items);
    clear(&key->name);
}

static void drop(model_keys *keys, size_t at)
{
    free_key(&keys->list[at]);
    keys->count--;
    memmove(&keys->list[at], &keys->list[at + 1],
            (keys->count - at) * sizeof(*keys->list));
}

/* Redis drops what has expired when it comes across it. */
model_key *model_find(model *m, const dlk_arg *name)
{
    for (size_t i = 0; i < m->keys.count; i++) {
        model_key *key = &m->keys.list[i];
        if (!model_same(&key->name, name))
            continue;
        if (key->ends_at == 0 || model_now_ms(m) <= key->ends_at)
            return key;
        if (!m->looked_at)
            drop(&m->keys, i);
        return NULL;
    }
    return NULL;
}

model_key *model_find_text(model *m, const char *name)
{
    dlk_arg text = dlk_arg_text(name);
    return model_find(m, &text);
}

static model_key *add(model_keys *keys)
{
    if (keys->count == keys->room) {
        keys->room = keys->room ? keys->room * 2 : 16;
        keys->list = must(realloc(keys->list, keys->room * sizeof(*keys->list)));
    }
    keys->list[keys->count] = (model_key){0};
    return &keys->list[keys->count++];
}

model_key *model_make(model *m, const dlk_arg *name, model_type type)
{
    model_key *key = add(&m->keys);
    model_set(&key->name, name->data, name->size);
    key->type = type;
    return key;
}

bool model_delete(model *m, const dlk_arg *name)
{
    model_key *key = model_find(m, name);
    if (key)
        drop(&m->keys, (size_t)(key - m->keys.list));
    return key != NULL;
}

void model_keys_free(model_keys *keys)
{
    while (keys->count > 0)
        drop(keys, keys->count - 1);
    free(keys->list);
    *keys = (model_keys){0};
}

void model_wipe(model *m)
{
    model_keys_free(&m->keys);
}

static void copy_key(model_key *to, const model_key *from)
{
    to->type = from->type;
    to->ends_at = from->ends_at;
    model_set(&to->name, from->name.data, from->name.size);
    for (size_t i = 0; i < from->count; i++) {
        const model_item *item = &from->items[i];
        model_item *copy = model_insert(to, i);
        copy->score = item->score;
        model_set(&copy->name, item->name.data, item->name.size);
        if (item->value.data)
            model_set(&copy->value, item->value.data, item->value.size);
    }
}

void model_copy(model_keys *to, const model_keys *from)
{
    model_keys_free(to);
    for (size_t i = 0; i < from->count; i++)
        copy_key(add(to), &from->list[i]);
}
