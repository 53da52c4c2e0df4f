// SPDX-License-Identifier: GPL-2.0-only
/*
 * The trace events' code, which trace.h makes here and nowhere else.
 */
#define CREATE_TRACE_POINTS
#include "trace.h"
