/* A program that brings no service of its own has this one. */
#include "world.h"

const world_service *const world_own = NULL;
