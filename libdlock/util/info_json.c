/* A list with dotted keys as one line of JSON.
 *
 * The keys are first sorted into a tree in the order of their first appearance, then written. A
 * node whose children are called 0, 1, 2 … in this order is an array. A key that is both a value
 * and a parent ("a" beside "a.b") has its value under the empty name; a repeated key its last. */
#include "util/info.h"

#include "util/buf.h"
#include "util/digits.h"
#include "util/grow.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

#define NONE ((size_t)-1)

typedef struct json_node {
    const char *name; /* a component of an entry's key */
    size_t name_size;
    size_t first, last, next; /* children, sibling */
    size_t count;             /* of children */
    bool array;               /* they are 0…count - 1 so far */
    const dlk_info_entry *value;
} json_node;

typedef struct json_tree {
    json_node *nodes; /* 0 is the root */
    size_t count, capacity;
} json_tree;

static size_t new_node(json_tree *tree, const char *name, size_t name_size)
{
    json_node *nodes =
        dlk_grow(tree->nodes, tree->count, &tree->capacity, sizeof(*nodes));
    if (!nodes)
        return NONE;
    tree->nodes = nodes;
    tree->nodes[tree->count] = (json_node){.name = name,
                                           .name_size = name_size,
                                           .first = NONE,
                                           .last = NONE,
                                           .next = NONE,
                                           .array = true};
    return tree->count++;
}

static bool is_named(const json_node *node, const char *name, size_t size)
{
    return node->name_size == size && memcmp(node->name, name, size) == 0;
}

static bool is_index(const char *name, size_t size, size_t index)
{
    size_t value = 0;
    for (size_t i = 0; i < size; i++) {
        if (name[i] < '0' || name[i] > '9' || value > index)
            return false;
        value = 10 * value + (size_t)(name[i] - '0');
    }
    return size > 0 && value == index && (size == 1 || name[0] != '0');
}

static size_t find_child(const json_tree *tree, size_t parent, const char *name,
                         size_t size)
{
    const json_node *above = &tree->nodes[parent];
    if (above->last != NONE && is_named(&tree->nodes[above->last], name, size))
        return above->last;
    /* The next index of an array is new for certain: a long list needs no search. */
    if (above->array && is_index(name, size, above->count))
        return NONE;
    for (size_t i = above->first; i != NONE; i = tree->nodes[i].next)
        if (is_named(&tree->nodes[i], name, size))
            return i;
    return NONE;
}

static size_t child(json_tree *tree, size_t parent, const char *name, size_t size)
{
    size_t found = find_child(tree, parent, name, size);
    if (found != NONE)
        return found;
    size_t made = new_node(tree, name, size);
    if (made == NONE)
        return NONE;
    json_node *above = &tree->nodes[parent];
    if (above->last == NONE)
        above->first = made;
    else
        tree->nodes[above->last].next = made;
    above->last = made;
    above->array = above->array && is_index(name, size, above->count);
    above->count++;
    return made;
}

static bool insert(json_tree *tree, const dlk_info_entry *entry)
{
    size_t at = 0;
    const char *name = entry->key;
    for (;;) {
        size_t size = strcspn(name, ".");
        at = child(tree, at, name, size);
        if (at == NONE)
            return false;
        if (name[size] == '\0')
            break;
        name += size + 1;
    }
    tree->nodes[at].value = entry;
    return true;
}

static bool put(dlk_buf *out, const char *text)
{
    return dlk_buf_append(out, text, strlen(text));
}

/* A character of ASCII, or U+0080 to U+009F, which terminals obey as well. */
static bool put_low(dlk_buf *out, unsigned char c)
{
    char escape[] = "\\u0000";
    switch (c) {
    case '"':
        return put(out, "\\\"");
    case '\\':
        return put(out, "\\\\");
    case '\n':
        return put(out, "\\n");
    case '\r':
        return put(out, "\\r");
    case '\t':
        return put(out, "\\t");
    default:
        break;
    }
    if (c >= 0x20 && c < 0x7f)
        return dlk_buf_append(out, &c, 1);
    (void)dlk_digits_put_byte(escape + 4, c);
    return dlk_buf_append(out, escape, 6);
}

static bool put_string(dlk_buf *out, const char *text, size_t size)
{
    bool ok = put(out, "\"");
    for (size_t i = 0; ok && i < size;) {
        const char *at = text + i;
        size_t length = dlk_utf8_size(at, size - i);
        if (length == 0)
            ok = put(out, "\\ufffd");
        else if (length == 1 || dlk_utf8_is_c1(at, length))
            ok = put_low(out, (unsigned char)at[length - 1]);
        else
            ok = dlk_buf_append(out, at, length);
        i += length ? length : 1;
    }
    return ok && put(out, "\"");
}

static bool put_value(dlk_buf *out, const dlk_info_entry *value)
{
    return value->is_number ? put(out, value->text)
                            : put_string(out, value->text, strlen(value->text));
}

static bool put_name(dlk_buf *out, const char *name, size_t size)
{
    return put_string(out, name, size) && put(out, ":");
}

static bool put_node(dlk_buf *out, const json_tree *tree, size_t at)
{
    const json_node *node = &tree->nodes[at];
    if (node->value && node->count == 0)
        return put_value(out, node->value);
    bool array = node->array && node->count > 0 && !node->value;
    bool ok = put(out, array ? "[" : "{");
    if (node->value)
        ok = ok && put_name(out, "", 0) && put_value(out, node->value) && put(out, ",");
    for (size_t i = node->first; ok && i != NONE; i = tree->nodes[i].next) {
        if (i != node->first)
            ok = put(out, ",");
        if (!array)
            ok = ok && put_name(out, tree->nodes[i].name, tree->nodes[i].name_size);
        ok = ok && put_node(out, tree, i);
    }
    return ok && put(out, array ? "]" : "}");
}

char *dlk_info_json(const dlock_info *info)
{
    json_tree tree = {0};
    dlk_buf out = {0};
    char *json = NULL;
    bool ok = new_node(&tree, "", 0) != NONE;
    for (size_t i = 0; ok && i < info->count; i++)
        ok = insert(&tree, &info->entries[i]);
    if (ok && put_node(&out, &tree, 0))
        json = strndup(dlk_buf_head(&out), dlk_buf_size(&out));
    dlk_buf_free(&out);
    free(tree.nodes);
    return json;
}
