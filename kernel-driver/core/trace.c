// SPDX-License-Identifier: GPL-2.0-only
/*
 * The code of the trace events: trace.h generates it only here.
 */
#define CREATE_TRACE_POINTS
#include "trace.h"
