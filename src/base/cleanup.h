/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/cleanup.h - variables that release themselves at the end of their scope, lists that
 * grow, and searches in sorted lists. Give away ownership with mk_steal_ptr() / mk_steal_fd() on
 * the last line. */
#ifndef MK_BASE_CLEANUP_H
#define MK_BASE_CLEANUP_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void mk_cleanup_free(void *where)
{
	free(*(void **)where);
}

static inline void mk_cleanup_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void mk_cleanup_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}

static inline void mk_cleanup_closedir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

#define cleanup_free	 __attribute__((cleanup(mk_cleanup_free)))
#define cleanup_close	 __attribute__((cleanup(mk_cleanup_close)))
#define cleanup_fclose	 __attribute__((cleanup(mk_cleanup_fclose)))
#define cleanup_closedir __attribute__((cleanup(mk_cleanup_closedir)))

/* Return the value of @ptr and set it to NULL. */
#define mk_steal_ptr(ptr)                         \
	({                                        \
		__typeof__(ptr) mk_stolen_ = ptr; \
		(ptr) = NULL;                     \
		mk_stolen_;                       \
	})

static inline int mk_steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

/* Make space for one more element. The space doubles, so @count says when a list is full. */
static inline void *mk_grow(void *list, size_t count, size_t size)
{
	return count & (count - 1) ? list : reallocarray(list, count ? 2 * count : 1, size);
}

/* Return a zeroed element at the end of @list, and count it; NULL: no memory, the list stays. Only
 * this allocates the list, which begins as NULL and is freed by free(). */
#define mk_append(list, count)                                                    \
	({                                                                        \
		__typeof__(list) mk_end_ = mk_grow(list, count, sizeof(*(list))); \
		if (mk_end_) {                                                    \
			(list) = mk_end_;                                         \
			mk_end_ += (count)++;                                     \
			memset(mk_end_, 0, sizeof(*mk_end_));                     \
		}                                                                 \
		mk_end_;                                                          \
	})

/* Compare elements by their first member, for qsort() and mk_find(): a text, or a uint32_t. */
static inline int mk_compare_texts(const void *left, const void *right)
{
	return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static inline int mk_compare_ids(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return (a > b) - (a < b);
}

/* Return the element of a sorted @list that is equal to @key; NULL: none. */
#define mk_find(key, list, count, compare)                                                    \
	((__typeof__(&*(list)))((count) ? bsearch(key, list, count, sizeof(*(list)), compare) \
					: NULL))

#define MK_ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif
