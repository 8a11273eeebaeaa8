/* URIs of lock services.
 *
 * The parts are found by their delimiters first and decoded afterwards, so an encoded delimiter
 * is never taken for one. Nothing of the authority is ever repeated in an error: a mistyped URI
 * may have its password anywhere in there. */
#include "util/uri.h"

#include "util/digits.h"
#include "util/error.h"
#include "util/uri_mask.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_MAX    64
#define HOST_LONGEST 255

static bool has_suffix(const char *text, const char *suffix)
{
    size_t size = strlen(text), end = strlen(suffix);
    return size >= end && strcmp(text + size - end, suffix) == 0;
}

static bool names_a_path(const char *scheme)
{
    return strcmp(scheme, "file") == 0 || has_suffix(scheme, "+unix");
}

/* Schemes that lead to something on this machine and have no host. */
static bool is_local(const char *scheme)
{
    return strcmp(scheme, "mem") == 0 || names_a_path(scheme);
}

static int hex_value(char c)
{
    return dlk_digits_hex((char)tolower((unsigned char)c));
}

static dlock_err decode_into(char *out, dlk_slice in, dlock_error **err)
{
    for (size_t i = 0; i < in.size; i++) {
        if (in.at[i] != '%') {
            *out++ = in.at[i];
            continue;
        }
        int high = i + 2 < in.size ? hex_value(in.at[i + 1]) : -1;
        int low = high >= 0 ? hex_value(in.at[i + 2]) : -1;
        if (low < 0)
            return dlk_error_set(
                err, DLOCK_EINVAL,
                "the URI has a %% without two hexadecimal digits behind it: "
                "write %% itself as %%25");
        if (high == 0 && low == 0)
            return dlk_error_set(err, DLOCK_EINVAL, "the URI has a NUL byte (%%00)");
        *out++ = (char)(16 * high + low);
        i += 2;
    }
    return DLOCK_OK;
}

static dlock_err decode(dlk_slice in, char **ret, dlock_error **err)
{
    char *text = calloc(1, in.size + 1);
    if (!text)
        return dlk_error_nomem(err);
    dlock_err code = decode_into(text, in, err);
    if (code) {
        dlk_wipe_free(text);
        return code;
    }
    *ret = text;
    return DLOCK_OK;
}

static bool is_host_char(char c, bool address)
{
    if (isalnum((unsigned char)c) || (unsigned char)c >= 0x80)
        return true;
    /* Brackets let an address have colons and a zone (%eth0). */
    return c != '\0' && strchr(address ? ":.%_-~" : "._-~", c) != NULL;
}

static dlock_err check_host(const char *host, bool address, dlock_error **err)
{
    size_t size = strlen(host);
    if (size == 0)
        return dlk_error_set(err, DLOCK_EINVAL, "the URI has an empty host name");
    if (size > HOST_LONGEST)
        return dlk_error_set(err, DLOCK_EINVAL, "the URI has a host name over %d bytes",
                             HOST_LONGEST);
    for (size_t i = 0; i < size; i++)
        if (!is_host_char(host[i], address))
            return dlk_error_set(
                err, DLOCK_EINVAL,
                "the URI has a host name with a character that can't be in "
                "one; an IPv6 address belongs in [ ]");
    return DLOCK_OK;
}

static dlock_err parse_port(dlk_slice text, uint16_t *ret, dlock_error **err)
{
    unsigned port = 0;
    for (size_t i = 0; i < text.size && port <= UINT16_MAX; i++)
        port = isdigit((unsigned char)text.at[i])
                   ? 10 * port + (unsigned)(text.at[i] - '0')
                   : UINT16_MAX + 1;
    if (port == 0 || port > UINT16_MAX)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "the URI has a bad port: a number from 1 to 65535 is needed "
                             "behind the colon");
    *ret = (uint16_t)port;
    return DLOCK_OK;
}

static size_t count(dlk_slice text, char c)
{
    size_t found = 0;
    for (size_t i = 0; i < text.size; i++)
        found += text.at[i] == c;
    return found;
}

/* host, host:port, [address] or [address]:port */
static dlock_err parse_host(dlk_uri *uri, dlk_slice text, dlock_error **err)
{
    bool address = text.size > 0 && text.at[0] == '[';
    size_t end = address ? dlk_slice_find(text, ']') : dlk_slice_find(text, ':');
    if (address && end == text.size)
        return dlk_error_set(err, DLOCK_EINVAL, "the URI has a [ without a ] behind it");
    if (!address && count(text, ':') > 1)
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "the URI has a host with two colons; an IPv6 address belongs in "
            "[ ]");
    dlk_slice name = {text.at + address, end - address};
    dlk_slice port = dlk_slice_from(text, end + address);

    dlk_uri_host *host = &uri->hosts[uri->host_count++];
    dlock_err code = decode(name, &host->host, err);
    if (!code)
        code = check_host(host->host, address, err);
    if (code || port.size == 0)
        return code;
    if (port.at[0] != ':')
        return dlk_error_set(err, DLOCK_EINVAL,
                             "the URI has something between ] and the port");
    return parse_port(dlk_slice_from(port, 1), &host->port, err);
}

static dlock_err parse_hosts(dlk_uri *uri, dlk_slice text, dlock_error **err)
{
    size_t hosts = count(text, ',') + 1;
    if (hosts > HOSTS_MAX)
        return dlk_error_set(err, DLOCK_EINVAL, "the URI has more than %d hosts",
                             HOSTS_MAX);
    uri->hosts = calloc(hosts, sizeof(*uri->hosts));
    if (!uri->hosts)
        return dlk_error_nomem(err);
    dlock_err code = DLOCK_OK;
    for (size_t i = 0; !code && i < hosts; i++) {
        size_t comma = dlk_slice_find(text, ',');
        code = parse_host(uri, (dlk_slice){text.at, comma}, err);
        text = dlk_slice_from(text, comma + 1);
    }
    return code;
}

static dlock_err parse_user(dlk_uri *uri, dlk_slice text, dlock_error **err)
{
    size_t colon = dlk_slice_find(text, ':');
    dlock_err code = DLOCK_OK;
    if (colon > 0)
        code = decode((dlk_slice){text.at, colon}, &uri->user, err);
    if (!code && colon < text.size)
        code = decode(dlk_slice_from(text, colon + 1), &uri->password, err);
    return code;
}

static dlock_err parse_authority(dlk_uri *uri, const dlk_uri_parts *parts,
                                 dlock_error **err)
{
    if (!parts->has_authority)
        return DLOCK_OK;
    if (is_local(uri->scheme)) {
        if (parts->user.size == 0 && parts->hosts.size == 0)
            return DLOCK_OK;
        return dlk_error_set(
            err, DLOCK_EINVAL, "%s takes no host: write %s", uri->scheme,
            names_a_path(uri->scheme) ? "three slashes, as in file:///path" : "mem:NAME");
    }
    dlock_err code = parse_user(uri, parts->user, err);
    return code ? code : parse_hosts(uri, parts->hosts, err);
}

static dlock_err parse_parameter(dlk_uri *uri, dlk_slice text, dlock_error **err)
{
    size_t equals = dlk_slice_find(text, '=');
    if (equals == text.size)
        return dlk_error_set(err, DLOCK_EINVAL,
                             "the URI has a parameter without a value: write ?key=value");
    dlk_uri_parameter *parameter = &uri->parameters[uri->parameter_count++];
    dlock_err code = decode((dlk_slice){text.at, equals}, &parameter->key, err);
    if (!code)
        code = decode(dlk_slice_from(text, equals + 1), &parameter->value, err);
    return code;
}

static dlock_err parse_query(dlk_uri *uri, dlk_slice text, dlock_error **err)
{
    uri->parameters = calloc(count(text, '&') + 1, sizeof(*uri->parameters));
    if (!uri->parameters)
        return dlk_error_nomem(err);
    dlock_err code = DLOCK_OK;
    while (!code && text.size > 0) {
        size_t end = dlk_slice_find(text, '&');
        if (end > 0)
            code = parse_parameter(uri, (dlk_slice){text.at, end}, err);
        text = dlk_slice_from(text, end + 1);
    }
    return code;
}

static dlock_err parse_scheme(dlk_uri *uri, dlk_slice text, dlock_error **err)
{
    uri->scheme = strndup(text.at, text.size);
    if (!uri->scheme)
        return dlk_error_nomem(err);
    for (char *c = uri->scheme; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("+-.", *c))
            return dlk_error_set(
                err, DLOCK_EINVAL,
                "the URI doesn't begin with a scheme such as mem: file: redis:");
        *c = (char)tolower((unsigned char)*c);
    }
    return DLOCK_OK;
}

static dlock_err check_text(const char *text, dlock_error **err)
{
    size_t size = strnlen(text, DLK_URI_MAX + 1);
    if (size == 0)
        return dlk_error_set(err, DLOCK_EINVAL, "the URI is empty");
    if (size > DLK_URI_MAX)
        return dlk_error_set(err, DLOCK_EINVAL, "the URI is over %d bytes", DLK_URI_MAX);
    if (text[0] == ':' || !strchr(text, ':'))
        return dlk_error_set(
            err, DLOCK_EINVAL,
            "the URI doesn't begin with a scheme such as mem: file: redis:");
    for (size_t i = 0; i < size; i++)
        if (iscntrl((unsigned char)text[i]))
            return dlk_error_set(err, DLOCK_EINVAL,
                                 "the URI has a control character at byte %zu", i + 1);
    return DLOCK_OK;
}

/* Where there is an @ too many, any part may be one of the password: say nothing of them. */
static dlock_err keep_quiet(const dlk_uri *uri, dlock_err code, dlock_error **err)
{
    if (!uri->ambiguous || code != DLOCK_EINVAL)
        return code;
    return dlk_error_set(
        err, DLOCK_EINVAL,
        "the URI can't be understood: a / ? @ or : in the password must be "
        "written as %%2F %%3F %%40 %%3A");
}

dlock_err dlk_uri_parse(const char *text, dlk_uri **ret, dlock_error **err)
{
    dlock_err code = check_text(text, err);
    if (code)
        return code;
    dlk_uri *uri = calloc(1, sizeof(*uri));
    if (!uri)
        return dlk_error_nomem(err);
    dlk_uri_parts parts = dlk_uri_split(text);
    code = parse_scheme(uri, parts.scheme, err);
    if (!code) {
        uri->ambiguous = !is_local(uri->scheme) && parts.stray_at;
        code = parse_authority(uri, &parts, err);
    }
    if (!code)
        code = decode(parts.path, &uri->path, err);
    if (!code)
        code = parse_query(uri, parts.query, err);
    if (!code && !(uri->masked = dlk_uri_mask(uri, &parts)))
        code = dlk_error_nomem(err);
    if (code) {
        code = keep_quiet(uri, code, err);
        dlk_uri_free(uri);
        return code;
    }
    *ret = uri;
    return dlk_error_clear(err);
}

void dlk_uri_free(dlk_uri *uri)
{
    if (!uri)
        return;
    for (size_t i = 0; i < uri->host_count; i++)
        free(uri->hosts[i].host);
    for (size_t i = 0; i < uri->parameter_count; i++) {
        free(uri->parameters[i].key);
        dlk_wipe_free(uri->parameters[i].value);
    }
    free(uri->hosts);
    free(uri->parameters);
    free(uri->scheme);
    free(uri->path);
    free(uri->user);
    dlk_wipe_free(uri->password);
    free(uri->masked);
    free(uri);
}

const char *dlk_uri_masked(const dlk_uri *uri)
{
    return uri->masked;
}

static dlock_err check_place(const dlk_uri *uri, dlock_error **err)
{
    if (names_a_path(uri->scheme) && (uri->path[0] != '/' || uri->path[1] == '\0'))
        return dlk_error_set(err, DLOCK_EINVAL,
                             "%s needs an absolute path, as in %s:///run/lock/app",
                             uri->scheme, uri->scheme);
    if (!is_local(uri->scheme) && uri->host_count == 0)
        return dlk_error_set(err, DLOCK_EINVAL, "%s needs a host: write %s://HOST[:PORT]",
                             uri->scheme, uri->scheme);
    return DLOCK_OK;
}

/* What stands before the @ or in the path, unless a parameter said it already. */
static dlock_err apply_part(dlk_settings *settings, dlk_key_id id, const char *value,
                            dlock_error **err)
{
    if (!value)
        return DLOCK_OK;
    if (dlk_settings_is_set(settings, id))
        return dlk_error_set(err, DLOCK_EINVAL, "the URI gives %s twice",
                             dlk_settings_spec(id)->name);
    return dlk_settings_set_id(settings, id, value, err);
}

static const char *database(const dlk_uri *uri)
{
    static const char *const plain[] = {"redis", "rediss", "redlock", "redlocks"};
    bool has_one = false;
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
        has_one |= strcmp(uri->scheme, plain[i]) == 0;
    return has_one && uri->path[0] == '/' && uri->path[1] ? uri->path + 1 : NULL;
}

dlock_err dlk_uri_apply(const dlk_uri *uri, dlk_settings *settings, dlock_error **err)
{
    dlock_err code = check_place(uri, err);
    for (size_t i = 0; !code && i < uri->parameter_count; i++)
        code = dlk_settings_set(settings, uri->parameters[i].key,
                                uri->parameters[i].value, err);
    if (!code)
        code = apply_part(settings, DLK_KEY_AUTH_USERNAME, uri->user, err);
    if (!code)
        code = apply_part(settings, DLK_KEY_AUTH_PASSWORD, uri->password, err);
    if (!code)
        code = apply_part(settings, DLK_KEY_REDIS_DB, database(uri), err);
    return code ? keep_quiet(uri, code, err) : dlk_error_clear(err);
}
