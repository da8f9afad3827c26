/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects. References are counted here; the last one to go has the
 * program's destructor run in a thread of ours, as natively.
 */
#include "shim/graph_user.h"

#include <stdlib.h>

#include "shim/hostfunc.h"
#include "shim_impl.h"

struct shim_user {
	struct shim_object object;
	uint64_t count;
	CUhostFn destroy;
	void *ptr;
};

static void
destroy(void *arg)
{
	struct shim_user *user = arg;

	user->destroy(user->ptr);
	free(user);
}

static void
release_locked(struct shim_user *user, uint64_t count)
{
	user->count -= count;
	if (user->count > 0)
		return;
	shim_object_remove(HANDLE_USER, user->object.handle);
	shim_host_soon(destroy, user);
}

static struct shim_user *
get_locked(CUuserObject handle)
{
	return shim_object_get(HANDLE_USER, (uintptr_t)handle);
}

/* ---- graphs ---- */

static struct shim_user_ref **
find_ref(struct shim_graph *graph, const struct shim_user *user)
{
	struct shim_user_ref **link = &graph->users;

	while (*link != NULL && (*link)->user != user)
		link = &(*link)->next;
	return link;
}

static CUresult
retain_locked(struct shim_graph *graph, struct shim_user *user, uint32_t count,
	      bool move)
{
	struct shim_user_ref **link = find_ref(graph, user);

	if (*link == NULL) {
		*link = calloc(1, sizeof(**link));
		if (*link == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		(*link)->user = user;
	}
	(*link)->count += count;
	if (!move)
		user->count += count;
	return CUDA_SUCCESS;
}

CUresult
shim_graph_users_copy_locked(struct shim_graph *to,
			     const struct shim_graph *from)
{
	CUresult r = CUDA_SUCCESS;

	for (const struct shim_user_ref *ref = from->users;
	     ref != NULL && r == CUDA_SUCCESS; ref = ref->next)
		r = retain_locked(to, ref->user, 1, false);
	return r;
}

void
shim_graph_users_drop_locked(struct shim_graph *graph)
{
	struct shim_user_ref *ref;

	while ((ref = graph->users) != NULL) {
		graph->users = ref->next;
		release_locked(ref->user, ref->count);
		free(ref);
	}
}

/* ---- entry points ---- */

CUresult
shim_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn fn,
			unsigned int initialRefcount, unsigned int flags)
{
	struct shim_user *user;

	if (object_out == NULL || fn == NULL || initialRefcount == 0 ||
	    initialRefcount > INT32_MAX ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	user = calloc(1, sizeof(*user));
	if (user == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	user->count = initialRefcount;
	user->destroy = fn;
	user->ptr = ptr;
	if (shim_object_add(HANDLE_USER, &user->object) != 0) {
		free(user);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*object_out = (CUuserObject)(uintptr_t)user->object.handle;
	return CUDA_SUCCESS;
}

static CUresult
change(CUuserObject object, unsigned int count, bool add)
{
	struct shim_user *user;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (count == 0 || count > INT32_MAX)
		return r;
	pthread_mutex_lock(&shim_graph_lock);
	user = get_locked(object);
	if (user != NULL && (add || count <= user->count)) {
		if (add)
			user->count += count;
		else
			release_locked(user, count);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	return change(object, count, true);
}

CUresult
shim_cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	return change(object, count, false);
}

CUresult
shim_cuGraphRetainUserObject(CUgraph graph, CUuserObject object,
			     unsigned int count, unsigned int flags)
{
	struct shim_graph *g;
	struct shim_user *user;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (count == 0 || count > INT32_MAX ||
	    flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
		return r;
	pthread_mutex_lock(&shim_graph_lock);
	g = shim_graph_get_locked(graph);
	user = get_locked(object);
	if (g != NULL && user != NULL &&
	    (!(flags & CU_GRAPH_USER_OBJECT_MOVE) || count <= user->count))
		r = retain_locked(g, user, count,
				  flags & CU_GRAPH_USER_OBJECT_MOVE);
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}

CUresult
shim_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object,
			      unsigned int count)
{
	struct shim_user_ref **link, *ref;
	struct shim_graph *g;
	struct shim_user *user;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&shim_graph_lock);
	g = shim_graph_get_locked(graph);
	user = get_locked(object);
	if (g != NULL && user != NULL && count > 0) {
		link = find_ref(g, user);
		ref = *link;
		if (ref != NULL && count <= ref->count) {
			ref->count -= count;
			if (ref->count == 0) {
				*link = ref->next;
				free(ref);
			}
			release_locked(user, count);
			r = CUDA_SUCCESS;
		}
	}
	pthread_mutex_unlock(&shim_graph_lock);
	return r;
}
