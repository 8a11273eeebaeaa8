/* The main() of test programs that have none; apart from harness.c, so that those that do can use
 * the checks. */
#include "harness/harness.h"

int main(int argc, char **argv)
{
    return harness_main(argc, argv);
}
