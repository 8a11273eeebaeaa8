/* What is started on a multi-lock and not waited for, whatever it is: an op of the first member's
 * engine, made of operations of the members'. */
#include "multi/inner.h"

bool dlk_multi_op_begin(dlk_multi_op *whole, dlk_multi *multi,
                        dlk_compound_end *end_early, dlock_op **ret_op)
{
    if (!dlk_compound_begin(&whole->compound, multi->members[0].engine, end_early,
                            ret_op))
        return false;
    whole->multi = multi;
    dlk_multi_ref(multi);
    return true;
}

void dlk_multi_op_close(dlk_multi_op *whole)
{
    dlk_multi *multi = whole->multi;
    dlk_compound_close(&whole->compound);
    dlk_multi_unref(multi);
}
