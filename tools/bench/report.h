/* What `dlock bench` has found, for people and as JSON. */
#ifndef DLOCK_TOOLS_BENCH_REPORT_H
#define DLOCK_TOOLS_BENCH_REPORT_H

#include "bench/crew.h"

/* What a pair of one thread asks the service for, by the client's own measures. */
typedef struct bench_floor {
    double requests;   /* of a pair; 0: none leaves the process */
    double request_ns; /* the mean of one */
} bench_floor;

typedef struct bench_report {
    cli_call *cli;
    size_t count; /* of scenes */
    const crew_scene *scenes;
    crew_result *results; /* the first is of one thread */
    bench_floor floor;
} bench_report;

/* What the rate is made of. */
double bench_rate(const crew_scene *scene, const crew_result *result);
int bench_threads(const cli_call *cli, const crew_scene *scene);

void bench_print_text(const bench_report *report);
void bench_print_json(const bench_report *report);

#endif
