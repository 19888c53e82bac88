// SPDX-License-Identifier: Apache-2.0
#include "sfc/numbers.h"

int numbers_init(struct numbers *numbers, size_t room)
{
	*numbers = (struct numbers){ .room = room, .used = 1, .free = 1 };
	numbers->of = calloc(room, sizeof(*numbers->of));
	return numbers->of ? 0 : -ENOMEM;
}

void numbers_release(struct numbers *numbers)
{
	mk_index_release(&numbers->index);
	free(numbers->of);
}

static uint32_t key_of(uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32);
}

uint16_t numbers_find(const struct numbers *numbers, uint64_t hash)
{
	struct mk_index_link *link = mk_index_find(&numbers->index, key_of(hash));

	for (; link; link = mk_index_find_next(link)) {
		const struct number *number = mk_index_entry(link, struct number, link);

		if (number->hash == hash)
			return (uint16_t)(number - numbers->of);
	}
	return 0;
}

bool numbers_put(struct numbers *numbers, uint16_t wanted, uint64_t hash)
{
	struct number *number;

	if (!wanted || wanted >= numbers->room || !hash || numbers_find(numbers, hash))
		return false;
	number = &numbers->of[wanted];
	if (number->hash || mk_index_add(&numbers->index, &number->link, key_of(hash)) < 0)
		return false;
	number->hash = hash;
	if (wanted >= numbers->used)
		numbers->used = (size_t)wanted + 1;
	return true;
}

void numbers_begin(struct numbers *numbers)
{
	for (size_t i = 1; i < numbers->used; i++)
		numbers->of[i].seen = false;
}

static uint16_t lowest_free(struct numbers *numbers)
{
	while (numbers->free < numbers->room && numbers->of[numbers->free].hash)
		numbers->free++;
	return numbers->free < numbers->room ? (uint16_t)numbers->free : 0;
}

uint16_t numbers_take(struct numbers *numbers, uint64_t hash)
{
	uint16_t number = numbers_find(numbers, hash);

	if (!number) {
		number = lowest_free(numbers);
		if (!number || !numbers_put(numbers, number, hash))
			return 0;
	}
	numbers->of[number].seen = true;
	return number;
}

void numbers_end(struct numbers *numbers, uint64_t now_ns)
{
	numbers->gone = 0;
	for (size_t i = 1; i < numbers->used; i++) {
		struct number *number = &numbers->of[i];

		if (!number->hash)
			continue;
		if (number->seen)
			number->gone_ns = 0;
		else if (!number->gone_ns)
			number->gone_ns = now_ns;
		numbers->gone += !number->seen;
	}
}

void numbers_free(struct numbers *numbers, uint16_t number)
{
	mk_index_remove(&numbers->index, &numbers->of[number].link);
	if (numbers->of[number].gone_ns)
		numbers->gone--;
	numbers->of[number] = (struct number){ 0 };
	if (number < numbers->free)
		numbers->free = number;
}
