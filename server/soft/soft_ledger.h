/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds how much of a device's memory, in every process of the user.
 * Called by server/soft/soft_*.c only.
 */
#ifndef SERVER_SOFT_SOFT_LEDGER_H
#define SERVER_SOFT_SOFT_LEDGER_H

#include <sys/stat.h>

#include "server/soft/soft.h"

/*
 * Join the account of this name ("" is the user's, "private" this process
 * alone) among devices with so much memory. Never fails but for memory: who
 * cannot share keeps his own account. Once, by cuInit.
 */
bool soft_ledger_join(const char *account, size_t memory_total);

/* Memory that dies with the process. False: there is not so much left. */
bool soft_ledger_charge(struct soft_device *dev, size_t size);
void soft_ledger_uncharge(struct soft_device *dev, size_t size);

/*
 * Memory that is a file: counted once however many processes hold it, and
 * as long as one does. False: there is not so much left.
 */
bool soft_ledger_hold(struct soft_device *dev, const struct stat *file);
/* A descriptor of it was given away: it may outlive its holders. */
void soft_ledger_share(const struct stat *file);
void soft_ledger_drop(struct soft_device *dev, const struct stat *file);

/* Bytes in use in all processes. */
size_t soft_ledger_used(struct soft_device *dev);

/* The name of memory files, as it shows in /proc. */
#define SOFT_LEDGER_FILE "softcuda"

#endif
