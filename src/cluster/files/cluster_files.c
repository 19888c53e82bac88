// SPDX-License-Identifier: Apache-2.0
/* A claim says that a file has an object. The model holds the object of the first claim by
 * file name. Trees are not kept: if the first claim is removed, the file of the next claim
 * is read again. */
#include "cluster/files/cluster_files.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cluster/files/files_internal.h"
#include "cluster/files/yaml_json.h"

#define FILE_MAX_BYTES (16 << 20)

struct claim {
	struct object *object;
	struct file *file;
	unsigned seen_in; /* serial of the sync that read it last */
	struct claim *prev, *next; /* claims of the object, by file name */
	struct claim *file_prev, *file_next; /* claims of the file */
};

struct object {
	UT_hash_handle hh;
	struct claim *claims;
	enum mk_kind kind;
	const char *namespace_, *name; /* stored after the key */
	char key[]; /* "kind/namespace/name" */
};

enum outcome {
	UNTOUCHED,
	APPLIED, /* objects that it no longer has are removed */
	KEPT, /* partly unreadable: no object is removed */
	VANISHED,
};

struct file {
	UT_hash_handle hh;
	struct claim *claims;
	bool marked, sound;
	enum outcome outcome; /* of the current sync */
	char name[];
};

struct mk_cluster_files {
	struct mk_model *model;
	struct file *files;
	struct object *objects;
	unsigned serial;
	char path[];
};

struct mk_cluster_files *cluster_files_new(const char *path, struct mk_model *model)
{
	struct mk_cluster_files *files = calloc(1, sizeof(*files) + strlen(path) + 1);

	if (!files)
		return NULL;
	files->model = model;
	strcpy(files->path, path);
	return files;
}

bool cluster_files_complete(const struct mk_cluster_files *files)
{
	struct file *file, *next;

	HASH_ITER(hh, files->files, file, next)
		if (!file->sound)
			return false;
	return true;
}

/* ---- marks ----------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *ending)
{
	size_t length = strlen(name), ending_length = strlen(ending);

	return length > ending_length && strcmp(name + length - ending_length, ending) == 0;
}

/* Names with a leading dot are editors' swap files, or temporary files before their rename. */
static bool is_ours(const char *name)
{
	return name[0] != '.' &&
	       (ends_with(name, ".yaml") || ends_with(name, ".yml") || ends_with(name, ".json"));
}

void cluster_files_mark(struct mk_cluster_files *files, const char *name)
{
	struct file *file;

	if (!is_ours(name))
		return;
	HASH_FIND_STR(files->files, name, file);
	if (!file) {
		file = calloc(1, sizeof(*file) + strlen(name) + 1);
		if (!file) {
			mk_log_error("'%s/%s' is not read: out of memory", files->path, name);
			return;
		}
		strcpy(file->name, name);
		HASH_ADD_STR(files->files, name, file);
	}
	file->marked = true;
}

int cluster_files_mark_all(struct mk_cluster_files *files, struct mk_error *err)
{
	cleanup_closedir DIR *dir = opendir(files->path);
	struct file *file, *next;
	struct dirent *entry;

	if (!dir)
		return mk_error_errno(err, errno, "cannot read directory '%s'", files->path);
	for (errno = 0; (entry = readdir(dir)); errno = 0)
		cluster_files_mark(files, entry->d_name);
	if (errno)
		return mk_error_errno(err, errno, "cannot read directory '%s'", files->path);
	HASH_ITER(hh, files->files, file, next)
		file->marked = true;
	return 0;
}

/* ---- claims ---------------------------------------------------------------------------------- */

static int by_file_name(const struct claim *a, const struct claim *b)
{
	return strcmp(a->file->name, b->file->name);
}

static struct object *find_object(const struct mk_cluster_files *files, enum mk_kind kind,
				  const char *namespace_, const char *name, bool create)
{
	size_t namespace_size = strlen(namespace_) + 1, name_size = strlen(name) + 1;
	size_t key_size = namespace_size + name_size + sizeof("0/");
	cleanup_free char *key = malloc(key_size);
	struct object *object = NULL;

	if (!key)
		return NULL;
	snprintf(key, key_size, "%c/%s/%s", '0' + (int)kind, namespace_, name);
	HASH_FIND_STR(files->objects, key, object);
	if (object || !create)
		return object;
	object = calloc(1, sizeof(*object) + key_size + namespace_size + name_size);
	if (!object)
		return NULL;
	object->kind = kind;
	memcpy(object->key, key, key_size);
	object->namespace_ = memcpy(object->key + key_size, namespace_, namespace_size);
	object->name = memcpy(object->key + key_size + namespace_size, name, name_size);
	return object;
}

static struct claim *find_claim(const struct object *object, const struct file *file)
{
	struct claim *claim;

	DL_FOREACH(object->claims, claim)
		if (claim->file == file)
			return claim;
	return NULL;
}

static struct claim *add_claim(struct mk_cluster_files *files, struct object *object,
			       struct file *file)
{
	struct claim *claim = calloc(1, sizeof(*claim));

	if (!claim)
		return NULL;
	claim->object = object;
	claim->file = file;
	if (!object->claims)
		HASH_ADD_STR(files->objects, key, object);
	DL_INSERT_INORDER(object->claims, claim, by_file_name);
	DL_APPEND2(file->claims, claim, file_prev, file_next);
	return claim;
}

static void remove_claim(struct mk_cluster_files *files, struct claim *claim)
{
	struct object *object = claim->object;

	DL_DELETE(object->claims, claim);
	DL_DELETE2(claim->file->claims, claim, file_prev, file_next);
	free(claim);
	if (object->claims)
		return;
	HASH_DEL(files->objects, object);
	free(object);
}

/* The file no longer has the object. */
static void drop_claim(struct mk_cluster_files *files, struct claim *claim)
{
	struct object *object = claim->object;

	if (object->claims == claim && claim->next)
		claim->next->file->marked = true;
	else if (object->claims == claim)
		mk_model_delete(files->model, object->kind, object->namespace_, object->name);
	remove_claim(files, claim);
}

/* ---- reading a file -------------------------------------------------------------------------- */

struct reading {
	struct mk_cluster_files *files;
	struct file *file;
	size_t line; /* of the document */
	bool sound; /* every object was valid */
	bool known; /* every object could be identified */
};

static void complain(struct reading *reading, const char *text)
{
	mk_log_error(
		"'%s/%s', object at line %zu is not applied, its former state stays in force: %s",
		reading->files->path, reading->file->name, reading->line, text);
	reading->sound = false;
}

/* The object cannot be identified, so no other object of this file may be considered removed. */
static void complain_of_unknown(struct reading *reading, const char *text)
{
	complain(reading, text);
	reading->known = false;
}

static void warn_about_two(const struct reading *reading, const struct object *object)
{
	const char *used = object->claims->file->name;
	const char *other = object->claims->next->file->name;

	if (strcmp(used, reading->file->name) != 0)
		other = reading->file->name;
	mk_log_warn(
		"%s%s%s is in two files of '%s': the one in '%s' counts, the one in '%s' does not",
		object->namespace_, *object->namespace_ ? "/" : "", object->name,
		reading->files->path, used, other);
}

/* Apply @tree if this file's claim is the first. A refused object leaves no new claim. */
static void apply_claim(struct reading *reading, struct claim *claim, bool is_new,
			json_object *tree)
{
	struct object *object = claim->object;
	struct mk_error err = { 0 };

	claim->seen_in = reading->files->serial;
	if (object->claims == claim && mk_model_apply(reading->files->model, tree, &err) < 0) {
		complain(reading, mk_error_text(&err));
		if (is_new)
			remove_claim(reading->files, claim);
	} else if (is_new && object->claims->next) {
		warn_about_two(reading, object);
	}
}

static void take_object(struct reading *reading, json_object *tree)
{
	struct mk_cluster_files *files = reading->files;
	const char *namespace_, *name;
	struct mk_error err = { 0 };
	struct object *object;
	struct claim *claim;
	enum mk_kind kind;
	bool is_new;
	int ret = mk_model_identify(tree, &kind, &namespace_, &name, &err);

	if (ret < 0)
		complain_of_unknown(reading, mk_error_text(&err));
	if (ret != 0)
		return;
	object = find_object(files, kind, namespace_, name, true);
	claim = object ? find_claim(object, reading->file) : NULL;
	if (claim && claim->seen_in == files->serial) {
		mk_log_warn(
			"'%s/%s', object at line %zu: %s%s%s is in this file more than once, the first counts",
			files->path, reading->file->name, reading->line, namespace_,
			*namespace_ ? "/" : "", name);
		return;
	}
	is_new = !claim;
	if (object && is_new)
		claim = add_claim(files, object, reading->file);
	if (claim) {
		apply_claim(reading, claim, is_new, tree);
		return;
	}
	complain(reading, "out of memory");
	if (object && !object->claims)
		free(object);
}

/* A List within a List is an invalid object. */
static void take_document(struct reading *reading, json_object *tree)
{
	json_object *items = mk_json_member(tree, "items");

	if (strcmp(mk_json_text(tree, "kind"), "List") != 0) {
		take_object(reading, tree);
		return;
	}
	if (items && !json_object_is_type(items, json_type_array)) {
		complain_of_unknown(reading, "List: items is not a list");
		return;
	}
	for (size_t i = 0; i < mk_json_length(items); i++)
		take_object(reading, json_object_array_get_idx(items, i));
}

/* Returns 1 with the documents, 0 if there is no such file, or an error. */
static int read_documents(const char *path, struct mk_documents *documents, struct mk_error *err)
{
	cleanup_free char *text = NULL;
	struct stat status;
	size_t size;
	int ret;

	if (stat(path, &status) < 0)
		return errno == ENOENT ? 0 : mk_error_errno(err, errno, "cannot read it");
	if (!S_ISREG(status.st_mode))
		return mk_error_set(err, EINVAL,
				    "not a regular file: move it out of the directory");
	ret = mk_file_read(path, FILE_MAX_BYTES, &text, &size, err);
	if (ret == -ENOENT)
		return 0;
	if (ret < 0)
		return ret;
	if (ends_with(path, ".json"))
		ret = json_parse(text, size, documents, err);
	else
		ret = mk_yaml_parse(text, size, documents, err);
	return ret < 0 ? ret : 1;
}

static enum outcome read_file(struct mk_cluster_files *files, struct file *file)
{
	cleanup_documents struct mk_documents documents = { 0 };
	struct reading reading = { .files = files, .file = file, .sound = true, .known = true };
	struct mk_error err = { 0 };
	char path[PATH_MAX];
	int ret;

	if (snprintf(path, sizeof(path), "%s/%s", files->path, file->name) >= (int)sizeof(path))
		ret = mk_error_set(&err, ENAMETOOLONG, "path too long");
	else
		ret = read_documents(path, &documents, &err);
	if (ret < 0)
		mk_log_error("'%s/%s' is not applied, its former objects stay in force: %s",
			     files->path, file->name, mk_error_text(&err));
	if (ret == 0 && access(files->path, F_OK) < 0)
		return KEPT; /* the whole directory is gone, not this file alone */
	if (ret <= 0) {
		file->sound = ret == 0;
		return ret == 0 ? VANISHED : KEPT;
	}
	for (size_t i = 0; i < documents.count; i++) {
		reading.line = documents.items[i].line;
		take_document(&reading, documents.items[i].tree);
	}
	file->sound = reading.sound;
	return reading.known ? APPLIED : KEPT;
}

/* ---- sync ------------------------------------------------------------------------------------ */

static void drop_unsaid(struct mk_cluster_files *files, struct file *file)
{
	struct claim *claim, *next;

	DL_FOREACH_SAFE2(file->claims, claim, next, file_next)
	if (file->outcome == VANISHED || claim->seen_in != files->serial)
		drop_claim(files, claim);
	if (file->outcome != VANISHED || file->marked)
		return;
	HASH_DEL(files->files, file);
	free(file);
}

static int by_name(const struct file *a, const struct file *b)
{
	return strcmp(a->name, b->name);
}

/* Read the marked files, then remove the objects that they no longer have. Returns whether more
 * files were marked, because they now have an object's first claim. */
static bool sync_once(struct mk_cluster_files *files)
{
	struct file *file, *next;
	bool again = false;

	files->serial++;
	HASH_SORT(files->files, by_name);
	HASH_ITER(hh, files->files, file, next) {
		file->outcome = file->marked ? read_file(files, file) : UNTOUCHED;
		file->marked = false;
	}
	HASH_ITER(hh, files->files, file, next)
		if (file->outcome == APPLIED || file->outcome == VANISHED)
			drop_unsaid(files, file);
	HASH_ITER(hh, files->files, file, next)
		again |= file->marked;
	return again;
}

void cluster_files_sync(struct mk_cluster_files *files)
{
	while (sync_once(files))
		;
}

void cluster_files_free(struct mk_cluster_files *files)
{
	struct file *file, *next_file;

	if (!files)
		return;
	HASH_ITER(hh, files->files, file, next_file) {
		while (file->claims)
			remove_claim(files, file->claims);
		HASH_DEL(files->files, file);
		free(file);
	}
	free(files);
}
