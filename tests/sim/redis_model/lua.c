/* The scripts of the library, run as Redis runs them: its conversions between Lua and the wire,
 * its `redis` table, no globals of one's own. One state for all models; each script is compiled
 * once. */
#include "model.h"

#include "backends/redis/scripts.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ARGS 256

static lua_State *lua;
static int functions[MODEL_SCRIPTS]; /* references to the compiled scripts */
static model *running;

/* ---- from the wire to Lua ---- */

static int64_t read_number(const char **at)
{
    char *end;
    int64_t number = strtoll(*at, &end, 10);
    *at = end + 2; /* the end of the line */
    return number;
}

static void push_line(lua_State *l, const char **at, const char *field)
{
    const char *end = strstr(*at, "\r\n");
    lua_newtable(l);
    lua_pushlstring(l, *at, (size_t)(end - *at));
    lua_setfield(l, -2, field);
    *at = end + 2;
}

/* Pushes what stands at *at, and goes on behind it. */
static void push_answer(lua_State *l, const char **at)
{
    char type = *(*at)++;
    int64_t number;
    switch (type) {
    case ':':
        lua_pushnumber(l, (lua_Number)read_number(at));
        return;
    case '$':
        number = read_number(at);
        if (number < 0) {
            lua_pushboolean(l, 0);
            return;
        }
        lua_pushlstring(l, *at, (size_t)number);
        *at += number + 2;
        return;
    case '*':
        number = read_number(at);
        luaL_checkstack(l, 4, "an answer too deep");
        lua_createtable(l, (int)number, 0);
        for (int i = 1; i <= number; i++) {
            push_answer(l, at);
            lua_rawseti(l, -2, i);
        }
        return;
    case '+':
        push_line(l, at, "ok");
        return;
    default:
        push_line(l, at, "err");
        return;
    }
}

/* ---- redis.call ---- */

/* The arguments, texts or numbers. They are left on the stack, where they live. */
static size_t take_args(lua_State *l, dlk_arg *args)
{
    int count = lua_gettop(l);
    if (count < 1 || count > MOST_ARGS)
        return 0;
    for (int i = 1; i <= count; i++) {
        if (lua_type(l, i) == LUA_TNUMBER) {
            char text[64];
            int size = snprintf(text, sizeof(text), "%.17g", lua_tonumber(l, i));
            lua_pushlstring(l, text, (size_t)size);
            lua_replace(l, i);
        } else if (lua_type(l, i) != LUA_TSTRING) {
            return 0;
        }
        args[i - 1].data = lua_tolstring(l, i, &args[i - 1].size);
    }
    return (size_t)count;
}

static void push_call(lua_State *l)
{
    static dlk_buf answer; /* kept: a script makes many calls */
    dlk_arg args[MOST_ARGS];
    size_t count = take_args(l, args);
    if (count == 0) {
        lua_newtable(l);
        lua_pushliteral(
            l, "ERR Lua redis lib command arguments must be strings or integers");
        lua_setfield(l, -2, "err");
        return;
    }
    dlk_buf_clear(&answer);
    model_call(running, args, count, &answer);
    if (!dlk_buf_append(&answer, "", 1)) /* for those who look for an end */
        abort();
    const char *at = dlk_buf_head(&answer);
    push_answer(l, &at);
}

static bool is_error(lua_State *l)
{
    if (lua_type(l, -1) != LUA_TTABLE)
        return false;
    lua_getfield(l, -1, "err");
    bool error = lua_type(l, -1) == LUA_TSTRING;
    lua_pop(l, 1);
    return error;
}

static int redis_call(lua_State *l)
{
    push_call(l);
    return is_error(l) ? lua_error(l) : 1;
}

static int redis_pcall(lua_State *l)
{
    push_call(l);
    return 1;
}

/* {err = text}; where it is one word only, it isn't the kind of the error. */
static int redis_error_reply(lua_State *l)
{
    const char *text = luaL_checkstring(l, 1);
    text += text[0] == '-';
    lua_newtable(l);
    lua_pushfstring(l, "%s%s", strchr(text, ' ') ? "" : "ERR ", text);
    lua_setfield(l, -2, "err");
    return 1;
}

static int redis_status_reply(lua_State *l)
{
    lua_newtable(l);
    lua_pushvalue(l, 1);
    lua_setfield(l, -2, "ok");
    return 1;
}

static int no_global(lua_State *l)
{
    return luaL_error(l, "Script attempted to access nonexistent global variable '%s'",
                      lua_tostring(l, 2));
}

static int no_new_global(lua_State *l)
{
    return luaL_error(l, "Attempt to modify a readonly table: '%s'", lua_tostring(l, 2));
}

/* ---- the state ---- */

/* What a script of Redis can't reach. */
static void remove_libraries(lua_State *l)
{
    static const char *const gone[] = {"dofile", "loadfile", "print", "newproxy",
                                       "collectgarbage"};
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
        lua_pushnil(l);
        lua_setglobal(l, gone[i]);
    }
}

static void open_library(lua_State *l, lua_CFunction open, const char *name)
{
    lua_pushcfunction(l, open);
    lua_pushstring(l, name);
    lua_call(l, 1, 0);
}

static void protect_globals(lua_State *l)
{
    lua_createtable(l, 0, 2);
    lua_pushcfunction(l, no_global);
    lua_setfield(l, -2, "__index");
    lua_pushcfunction(l, no_new_global);
    lua_setfield(l, -2, "__newindex");
    lua_setmetatable(l, LUA_GLOBALSINDEX);
}

static void open_state(void)
{
    static const luaL_Reg functions_of_redis[] = {{"call", redis_call},
                                                  {"pcall", redis_pcall},
                                                  {"error_reply", redis_error_reply},
                                                  {"status_reply", redis_status_reply},
                                                  {NULL, NULL}};
    lua = luaL_newstate();
    if (!lua)
        abort();
    open_library(lua, luaopen_base, "");
    open_library(lua, luaopen_table, LUA_TABLIBNAME);
    open_library(lua, luaopen_string, LUA_STRLIBNAME);
    open_library(lua, luaopen_math, LUA_MATHLIBNAME);
    remove_libraries(lua);
    luaL_register(lua, "redis", functions_of_redis);
    lua_pop(lua, 1);
    for (size_t i = 0; i < MODEL_SCRIPTS; i++)
        functions[i] = LUA_NOREF;
    protect_globals(lua);
}

static void push_script(size_t script)
{
    const dlk_redis_script *source = &dlk_redis_scripts[script];
    if (functions[script] == LUA_NOREF) {
        if (luaL_loadbuffer(lua, source->text, source->size, "@user_script") != 0) {
            (void)fprintf(stderr, "%s: %s\n", source->name, lua_tostring(lua, -1));
            abort();
        }
        functions[script] = luaL_ref(lua, LUA_REGISTRYINDEX);
    }
    lua_rawgeti(lua, LUA_REGISTRYINDEX, functions[script]);
}

static void set_list(const char *name, const dlk_arg *texts, size_t count)
{
    lua_pushstring(lua, name);
    lua_createtable(lua, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, texts[i].data, texts[i].size);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

/* ---- from Lua to the wire ---- */

/* A line can't have an end of line inside. */
static void put_line(const char *field, void (*put)(dlk_buf *, const char *),
                     dlk_buf *answer)
{
    lua_getfield(lua, -1, field);
    char text[512];
    (void)snprintf(text, sizeof(text), "%s", lua_tostring(lua, -1)); /* may be cut */
    for (char *at = text; *at; at++)
        if (*at == '\r' || *at == '\n')
            *at = ' ';
    put(answer, text);
    lua_pop(lua, 1);
}

static bool has(const char *field)
{
    lua_getfield(lua, -1, field);
    bool there = lua_type(lua, -1) == LUA_TSTRING;
    lua_pop(lua, 1);
    return there;
}

static void put_top(dlk_buf *answer);

/* Up to its first nil. */
static void put_table(dlk_buf *answer)
{
    if (has("err")) {
        put_line("err", model_answer_error, answer);
        return;
    }
    if (has("ok")) {
        put_line("ok", model_answer_status, answer);
        return;
    }
    int count = 0;
    for (bool more = true; more; count += more) {
        lua_rawgeti(lua, -1, count + 1);
        more = !lua_isnil(lua, -1);
        lua_pop(lua, 1);
    }
    model_answer_array(answer, (size_t)count);
    luaL_checkstack(lua, 4, "an answer too deep");
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(lua, -1, i);
        put_top(answer);
        lua_pop(lua, 1);
    }
}

static void put_top(dlk_buf *answer)
{
    dlk_arg text;
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        text.data = lua_tolstring(lua, -1, &text.size);
        model_answer_bulk(answer, &text);
        return;
    case LUA_TNUMBER:
        model_answer_integer(answer, (int64_t)lua_tonumber(lua, -1));
        return;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1))
            model_answer_integer(answer, 1);
        else
            model_answer_nil(answer);
        return;
    case LUA_TTABLE:
        put_table(answer);
        return;
    default:
        model_answer_nil(answer);
        return;
    }
}

static void put_failure(dlk_buf *answer)
{
    if (is_error(lua)) {
        put_table(answer);
        return;
    }
    char text[512];
    (void)snprintf(text, sizeof(text), "ERR %s", lua_tostring(lua, -1)); /* may be cut */
    model_answer_error(answer, text);
}

void model_script(model *m, size_t script, const dlk_arg *keys, size_t key_count,
                  const dlk_arg *args, size_t arg_count, dlk_buf *answer)
{
    if (!lua)
        open_state();
    running = m;
    lua_settop(lua, 0);
    push_script(script);
    set_list("KEYS", keys, key_count);
    set_list("ARGV", args, arg_count);
    if (lua_pcall(lua, 0, 1, 0) == 0)
        put_top(answer);
    else
        put_failure(answer);
    lua_settop(lua, 0);
    running = NULL;
}

size_t model_script_by_sha(const dlk_arg *sha)
{
    for (size_t i = 0; i < dlk_redis_script_count; i++)
        if (sha->size == 40 && memcmp(dlk_redis_scripts[i].sha1, sha->data, 40) == 0)
            return i;
    return MODEL_SCRIPTS;
}

size_t model_script_by_text(const dlk_arg *text)
{
    for (size_t i = 0; i < dlk_redis_script_count; i++)
        if (dlk_redis_scripts[i].size == text->size &&
            memcmp(dlk_redis_scripts[i].text, text->data, text->size) == 0)
            return i;
    return MODEL_SCRIPTS;
}
