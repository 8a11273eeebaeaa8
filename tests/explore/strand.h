/*
 * The threads of one execution, and who of them runs. Each is a strand: a stack of its own, and what
 * the library would find with a thread (whether it may be cancelled, which mutexes it has). One runs
 * at a time, all of them on the one thread of this program; who is next is chosen wherever a real
 * thread could have been stopped or would have slept: before a mutex is taken and after it is let
 * go, at a futex, an eventfd and a DLK_POINT. taken.c leads the library's calls here.
 *
 * Time stands still while anybody can run. When all sleep it moves on to the first deadline that one
 * of them sleeps to; when there is none, whoever isn't done sleeps for ever, which is a failure.
 */
#ifndef EXPLORE_STRAND_H
#define EXPLORE_STRAND_H

#include <stdbool.h>
#include <stdint.h>

/* The director, who makes the scene and clears it away; up to three actors; the engines' threads;
 * and the service, which isn't a strand, but takes its turns like one. */
enum { DIRECTOR, ACTORS, ENGINES = 4, STRANDS = 8, SERVICE = 8 };

typedef struct strand strand;

/* ---- an execution ---- */
/* Runs @p play on the director's stack until it returns. */
void strands_run(void (*play)(void));
strand *strand_start(void *(*run)(void *), void *arg, bool is_actor);
void *strand_join(strand *of);
/* Until all of them are done. */
void strands_join_actors(void);
/* The one who runs. */
strand *strand_self(void);
bool strand_is(const strand *one, int index);
char strand_letter(void);
/* From now on every switch is a choice; else all run as far as they can. */
void strands_explore(bool on);
/* Each atomic step of what runs without the mutex is a place to switch, too: seam.h. */
void strands_finely(bool on);
/* In a fork's child: there are no others. */
void strands_alone(void);

/* ---- where it may switch ---- */
void strand_point(const char *what);
/* It has done something that others may see. Who hasn't since its last point passes the next. */
void strand_act(void);
/* An atomic step. */
void strand_atomic(const char *what);
/* Lets others go first, if there are any. */
void strand_yield(void);
void strand_lock(void *mutex);
void strand_unlock(void *mutex);
/* Sleeps at @p on until it is woken there, by one of its bits, or until the time has come. */
void strand_sleep(const void *on, uint32_t bits, int64_t until, const char *what);
void strand_wake(const void *on, int count, uint32_t bits);

/* ---- what it has ---- */
int *strand_cancel_state(void);
/* Mutexes it has. */
int strand_holds(void);
/* While it sleeps, this is not to be true; NULL: nothing. */
const bool *strand_awaits(const bool *over);
bool strands_await_anything(void);

int64_t strands_now(void);
/* Choices and switches so far. */
int strands_steps(void);

/* ---- the service's part: service.c ---- */
bool service_can_go_on(void);
void service_goes_on(void);
/* When it does something by itself. */
int64_t service_next(void);
/* All sleep, and time is about to move on to @p until: is anything left undone? */
void service_look_round(int64_t until);

/* ---- telling: main.c ---- */
/* The execution has failed: says why, and by which schedule; doesn't return. */
__attribute__((format(printf, 1, 2), noreturn)) void explore_fail(const char *format,
                                                                  ...);
/* A line of the story, while a schedule is run again. */
__attribute__((format(printf, 1, 2))) void explore_tell(const char *format, ...);
bool explore_tells(void);

#endif
