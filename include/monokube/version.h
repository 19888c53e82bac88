/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MONOKUBE_VERSION_H
#define MONOKUBE_VERSION_H
#define MONOKUBE_VERSION "0.1.0"
#endif
