/* SPDX-License-Identifier: Apache-2.0 */
/* src/config/together.h - rules between settings; private to src/config. */
#ifndef MK_CONFIG_TOGETHER_H
#define MK_CONFIG_TOGETHER_H

#include "base/error.h"
#include "config/config.h"

/* Each setting of @config is valid by itself; are all of them together? */
mk_must_check int config_check_together(const struct mk_config *config, struct mk_error *err);

#endif
