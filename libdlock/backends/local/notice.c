/*
 * What is said beside a row's record: what its holder publishes, whose a lock was that has been
 * exported, and whom a revoke means. And the two steps of a hand-off, of which each commits a record
 * with no place: after the export the lock is no member's, with the import it is another's.
 */
#include "backends/local/table.h"

#include <inttypes.h>
#include <stdio.h>

void dlk_table_publish(dlk_section *section, uint32_t row_ref, int64_t token,
                       const char *text)
{
    dlk_notice *notice = dlk_row_notice(section->table, row_ref);
    size_t size = strlen(text);
    if (size > DLK_TABLE_NAME)
        size = DLK_TABLE_NAME;
    atomic_store_explicit(&notice->token, 0, memory_order_release);
    DLK_PUT(notice->size, (uint32_t)size);
    memcpy(notice->text, text, size);
    atomic_store_explicit(&notice->token, token, memory_order_release);
}

bool dlk_table_published(const dlk_section *section, uint32_t row_ref, int64_t token,
                         char *ret)
{
    const dlk_notice *notice = dlk_row_notice(section->table, row_ref);
    uint32_t size = DLK_GET(notice->size);
    if (atomic_load_explicit(&notice->token, memory_order_acquire) != token ||
        size == 0 || size > DLK_TABLE_NAME)
        return false;
    memcpy(ret, notice->text, size);
    ret[size] = '\0';
    return true;
}

/* ---- whose it is, as text ---- */

static void giver_of(const dlk_section *section, uint32_t row_ref, int64_t token,
                     char text[DLK_OWNER_SIZE])
{
    char said[DLK_TABLE_NAME + 1];
    if (!dlk_table_published(section, row_ref, token, said))
        said[0] = '\0';
    (void)snprintf(text, DLK_OWNER_SIZE, "%.*s", DLK_OWNER_SIZE - 1,
                   said[0] ? said : "?"); /* fits, unless others write */
}

void dlk_table_owner_text(const dlk_section *section, uint32_t row_ref,
                          const dlk_record *record, char text[DLK_OWNER_SIZE])
{
    if (record->owner == DLK_OWNER_EXPORTED) {
        giver_of(section, row_ref, record->token, text);
        return;
    }
    const dlk_member *member = dlk_member_of(section->table, record->owner);
    char uuid[DLK_MEMBER_UUID] = "?";
    if (member)
        dlk_member_uuid(member, uuid);
    (void)snprintf(text, DLK_OWNER_SIZE, "%.36s:%" PRIu64, uuid,
                   record->number); /* fits */
}

/* ---- handing on ---- */

bool dlk_table_export(dlk_section *section, uint32_t row_ref, const dlk_request *request)
{
    char giver[DLK_OWNER_SIZE];
    dlk_record record;
    if (!dlk_table_holder(section, row_ref, request->now, &record) ||
        !dlk_record_is_of(&record, request))
        return false;
    dlk_table_owner_text(section, row_ref, &record, giver);
    dlk_table_publish(section, row_ref, record.token, giver);
    record.owner = DLK_OWNER_EXPORTED;
    record.ticket = record.place = 0;
    dlk_row_supersede(section, row_ref, &record);
    return true;
}

bool dlk_table_import(dlk_section *section, uint32_t row_ref, const dlk_request *request,
                      const char *giver, int64_t *token)
{
    char owner[DLK_OWNER_SIZE];
    dlk_record record;
    if (!dlk_table_holder(section, row_ref, request->now, &record) ||
        record.kind != request->kind)
        return false;
    if (dlk_record_is_of(&record, request)) { /* asked again */
        *token = record.token;
        return dlk_table_renew(section, row_ref, request, NULL);
    }
    dlk_table_owner_text(section, row_ref, &record, owner);
    if (strcmp(owner, giver) != 0)
        return false;
    *token = dlk_table_next_token(section);
    if (*token != 0)
        dlk_row_supersede(section, row_ref,
                          &(dlk_record){
                              .owner = request->owner,
                              .number = request->number,
                              .token = *token,
                              .until = request->now + request->ttl,
                              .at = dlk_at_of(0, request->kind),
                              .since = dlk_date_of(request->now),
                          });
    return true;
}

/* ---- asking for it ---- */

void dlk_table_revoke(dlk_section *section, uint32_t row_ref)
{
    dlk_head *head = section->table->head;
    dlk_notice *notice = dlk_row_notice(section->table, row_ref);
    uint64_t wish = DLK_GET(head->wishes) + 1;
    DLK_PUT(notice->wanted, DLK_GET(head->last_token));
    DLK_PUT_AFTER(notice->wish, wish);
    DLK_PUT_AFTER(head->wishes, wish);
}

int64_t dlk_table_wanted(const dlk_table *table, uint32_t row_ref, uint64_t since)
{
    const dlk_notice *notice = dlk_row_notice(table, row_ref);
    if (atomic_load_explicit(&notice->wish, memory_order_acquire) <= since)
        return 0;
    return DLK_GET(notice->wanted);
}
