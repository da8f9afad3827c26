# SPDX-License-Identifier: Apache-2.0
"""The C types of cuda.h that prototypes may use, and its error codes.

A type that is in none of these sets is an error where it is used; what the
sets say is compared with cuda.h by --check-headers.
"""

# Scalars by value: bytes, signed.
SCALARS = {
    "char": (1, True), "signed char": (1, True), "unsigned char": (1, False),
    "short": (2, True), "unsigned short": (2, False),
    "int": (4, True), "unsigned int": (4, False),
    "long long": (8, True), "unsigned long long": (8, False),
    "size_t": (8, False), "cuuint32_t": (4, False), "cuuint64_t": (8, False),
    "CUdevice": (4, True), "CUdeviceptr_v1": (4, False),
    # Values that kernels can see: never minted, never translated.
    "CUdeviceptr": (8, False), "CUtexObject": (8, False),
    "CUsurfObject": (8, False), "CUgraphConditionalHandle": (8, False),
    "CUlogIterator": (4, False),
}
FLOATS = {"float": "4", "double": "8"}

# Handles that travel: C type -> enum handle_kind.
HANDLES = {
    "CUcontext": "context", "CUmodule": "module", "CUfunction": "function",
    "CUlibrary": "library", "CUkernel": "kernel", "CUstream": "stream",
    "CUevent": "event", "CUgraph": "graph", "CUgraphNode": "node",
    "CUgraphExec": "exec", "CUarray": "array", "CUmipmappedArray": "mipmap",
    "CUmemoryPool": "pool", "CUmemGenericAllocationHandle": "memory",
    "CUlinkState": "link", "CUgreenCtx": "green",
}
HANDLE_KINDS = frozenset(HANDLES.values())

# Handles whose absence is CUDA_ERROR_INVALID_HANDLE; that of the others is
# CUDA_ERROR_INVALID_VALUE. From the rows of tests/gpu/fidelity.tsv.
ANSWERED_AS_HANDLES = frozenset("""
CUarray CUevent CUfunction CUgraphicsResource CUkernel CUlibrary CUlinkState
CUmipmappedArray CUmodule CUstream CUsurfref CUtexref
""".split())

# Pointers to things of this process: they never travel.
LOCAL_ONLY = frozenset("""
CUtexref CUsurfref CUgraphicsResource CUexternalMemory CUexternalSemaphore
CUuserObject CUasyncCallbackHandle CUdevResourceDesc CUlogsCallbackHandle
CUasyncCallback CUhostFn CUstreamCallback CUoccupancyB2DSize CUlogsCallback
""".split())

# Structures by value -> bytes when they travel as one VALUE (the x86-64 and
# arm64 calling conventions pass 8 bytes of integers like an integer); 0: only
# handwritten code may take them.
BY_VALUE = {"CUmemLocation": 8, "CUipcMemHandle": 0, "CUipcEventHandle": 0}

ENUMS = frozenset("""
CUaddress_mode CUarray_format CUatomicOperation CUcoredumpSettings
CUdevResourceType CUdevice_P2PAttribute CUdevice_attribute
CUdriverProcAddressQueryResult CUexecAffinityType CUfilter_mode
CUflushGPUDirectRDMAWritesScope CUflushGPUDirectRDMAWritesTarget CUfunc_cache
CUfunctionLoadingState CUfunction_attribute CUgraphExecUpdateResult
CUgraphMem_attribute CUgraphNodeType CUjitInputType CUjit_option
CUkernelNodeAttrID CUlibraryOption CUlimit CUmemAccess_flags
CUmemAllocationGranularity_flags CUmemAllocationHandleType CUmemAllocationType
CUmemPool_attribute CUmemRangeHandleType CUmem_advise CUmem_range_attribute
CUmoduleLoadingMode CUmulticastGranularity_flags CUoutput_mode
CUpointer_attribute CUprocessState CUresult CUsharedconfig CUstreamAttrID
CUstreamCaptureMode CUstreamCaptureStatus CUtensorMapDataType
CUtensorMapFloatOOBfill CUtensorMapIm2ColWideMode CUtensorMapInterleave
CUtensorMapL2promotion CUtensorMapSwizzle
""".split())

STRUCTS = frozenset("""
CUDA_ARRAY3D_DESCRIPTOR CUDA_ARRAY3D_DESCRIPTOR_v1 CUDA_ARRAY_DESCRIPTOR
CUDA_ARRAY_DESCRIPTOR_v1 CUDA_ARRAY_MEMORY_REQUIREMENTS
CUDA_ARRAY_SPARSE_PROPERTIES CUDA_BATCH_MEM_OP_NODE_PARAMS
CUDA_EXTERNAL_MEMORY_BUFFER_DESC CUDA_EXTERNAL_MEMORY_HANDLE_DESC
CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC
CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS
CUDA_EXT_SEM_SIGNAL_NODE_PARAMS CUDA_EXT_SEM_WAIT_NODE_PARAMS
CUDA_GRAPH_INSTANTIATE_PARAMS CUDA_HOST_NODE_PARAMS CUDA_KERNEL_NODE_PARAMS
CUDA_KERNEL_NODE_PARAMS_v1 CUDA_LAUNCH_PARAMS CUDA_MEMCPY2D CUDA_MEMCPY2D_v1
CUDA_MEMCPY3D CUDA_MEMCPY3D_BATCH_OP CUDA_MEMCPY3D_PEER CUDA_MEMCPY3D_v1
CUDA_MEMSET_NODE_PARAMS CUDA_MEM_ALLOC_NODE_PARAMS CUDA_RESOURCE_DESC
CUDA_RESOURCE_VIEW_DESC CUDA_TEXTURE_DESC CUarrayMapInfo
CUcheckpointCheckpointArgs CUcheckpointLockArgs CUcheckpointRestoreArgs
CUcheckpointUnlockArgs CUctxCreateParams CUdevResource CUdevprop
CUexecAffinityParam CUgraphEdgeData CUgraphExecUpdateResultInfo
CUgraphNodeParams CUipcEventHandle CUipcMemHandle CUkernelNodeAttrValue
CUlaunchConfig CUmemAccessDesc CUmemAllocationProp CUmemDecompressParams
CUmemLocation CUmemPoolProps CUmemPoolPtrExportData CUmemcpyAttributes
CUmulticastObjectProp CUstreamAttrValue CUstreamBatchMemOpParams CUtensorMap
CUuuid
""".split())

# Structures that hold pointers or handles: their bytes alone mean nothing in
# another process.
WITH_POINTERS = frozenset("""
CUDA_BATCH_MEM_OP_NODE_PARAMS CUDA_EXTERNAL_MEMORY_HANDLE_DESC
CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS
CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS CUDA_EXT_SEM_SIGNAL_NODE_PARAMS
CUDA_EXT_SEM_WAIT_NODE_PARAMS CUDA_GRAPH_INSTANTIATE_PARAMS
CUDA_HOST_NODE_PARAMS CUDA_KERNEL_NODE_PARAMS CUDA_KERNEL_NODE_PARAMS_v1
CUDA_LAUNCH_PARAMS CUDA_MEMCPY2D CUDA_MEMCPY2D_v1 CUDA_MEMCPY3D
CUDA_MEMCPY3D_BATCH_OP CUDA_MEMCPY3D_PEER CUDA_MEMCPY3D_v1
CUDA_MEM_ALLOC_NODE_PARAMS CUDA_RESOURCE_DESC CUarrayMapInfo
CUcheckpointRestoreArgs CUctxCreateParams CUdevResource
CUgraphExecUpdateResultInfo CUgraphNodeParams CUkernelNodeAttrValue
CUlaunchConfig CUmemAllocationProp CUmemDecompressParams CUmemPoolProps
CUstreamAttrValue
""".split())

CODES = {
    "CUDA_SUCCESS": 0,
    "CUDA_ERROR_INVALID_VALUE": 1,
    "CUDA_ERROR_OUT_OF_MEMORY": 2,
    "CUDA_ERROR_NOT_INITIALIZED": 3,
    "CUDA_ERROR_DEINITIALIZED": 4,
    "CUDA_ERROR_PROFILER_DISABLED": 5,
    "CUDA_ERROR_PROFILER_NOT_INITIALIZED": 6,
    "CUDA_ERROR_PROFILER_ALREADY_STARTED": 7,
    "CUDA_ERROR_PROFILER_ALREADY_STOPPED": 8,
    "CUDA_ERROR_STUB_LIBRARY": 34,
    "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER": 36,
    "CUDA_ERROR_DEVICE_UNAVAILABLE": 46,
    "CUDA_ERROR_NO_DEVICE": 100,
    "CUDA_ERROR_INVALID_DEVICE": 101,
    "CUDA_ERROR_DEVICE_NOT_LICENSED": 102,
    "CUDA_ERROR_INVALID_IMAGE": 200,
    "CUDA_ERROR_INVALID_CONTEXT": 201,
    "CUDA_ERROR_CONTEXT_ALREADY_CURRENT": 202,
    "CUDA_ERROR_MAP_FAILED": 205,
    "CUDA_ERROR_UNMAP_FAILED": 206,
    "CUDA_ERROR_ARRAY_IS_MAPPED": 207,
    "CUDA_ERROR_ALREADY_MAPPED": 208,
    "CUDA_ERROR_NO_BINARY_FOR_GPU": 209,
    "CUDA_ERROR_ALREADY_ACQUIRED": 210,
    "CUDA_ERROR_NOT_MAPPED": 211,
    "CUDA_ERROR_NOT_MAPPED_AS_ARRAY": 212,
    "CUDA_ERROR_NOT_MAPPED_AS_POINTER": 213,
    "CUDA_ERROR_ECC_UNCORRECTABLE": 214,
    "CUDA_ERROR_UNSUPPORTED_LIMIT": 215,
    "CUDA_ERROR_CONTEXT_ALREADY_IN_USE": 216,
    "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED": 217,
    "CUDA_ERROR_INVALID_PTX": 218,
    "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT": 219,
    "CUDA_ERROR_NVLINK_UNCORRECTABLE": 220,
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND": 221,
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": 222,
    "CUDA_ERROR_JIT_COMPILATION_DISABLED": 223,
    "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY": 224,
    "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC": 225,
    "CUDA_ERROR_CONTAINED": 226,
    "CUDA_ERROR_INVALID_SOURCE": 300,
    "CUDA_ERROR_FILE_NOT_FOUND": 301,
    "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND": 302,
    "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED": 303,
    "CUDA_ERROR_OPERATING_SYSTEM": 304,
    "CUDA_ERROR_INVALID_HANDLE": 400,
    "CUDA_ERROR_ILLEGAL_STATE": 401,
    "CUDA_ERROR_LOSSY_QUERY": 402,
    "CUDA_ERROR_NOT_FOUND": 500,
    "CUDA_ERROR_NOT_READY": 600,
    "CUDA_ERROR_ILLEGAL_ADDRESS": 700,
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": 701,
    "CUDA_ERROR_LAUNCH_TIMEOUT": 702,
    "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING": 703,
    "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED": 704,
    "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED": 705,
    "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE": 708,
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": 709,
    "CUDA_ERROR_ASSERT": 710,
    "CUDA_ERROR_TOO_MANY_PEERS": 711,
    "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED": 712,
    "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED": 713,
    "CUDA_ERROR_HARDWARE_STACK_ERROR": 714,
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": 715,
    "CUDA_ERROR_MISALIGNED_ADDRESS": 716,
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": 717,
    "CUDA_ERROR_INVALID_PC": 718,
    "CUDA_ERROR_LAUNCH_FAILED": 719,
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": 720,
    "CUDA_ERROR_TENSOR_MEMORY_LEAK": 721,
    "CUDA_ERROR_NOT_PERMITTED": 800,
    "CUDA_ERROR_NOT_SUPPORTED": 801,
    "CUDA_ERROR_SYSTEM_NOT_READY": 802,
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": 803,
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": 804,
    "CUDA_ERROR_MPS_CONNECTION_FAILED": 805,
    "CUDA_ERROR_MPS_RPC_FAILURE": 806,
    "CUDA_ERROR_MPS_SERVER_NOT_READY": 807,
    "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED": 808,
    "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED": 809,
    "CUDA_ERROR_MPS_CLIENT_TERMINATED": 810,
    "CUDA_ERROR_CDP_NOT_SUPPORTED": 811,
    "CUDA_ERROR_CDP_VERSION_MISMATCH": 812,
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": 900,
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": 901,
    "CUDA_ERROR_STREAM_CAPTURE_MERGE": 902,
    "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED": 903,
    "CUDA_ERROR_STREAM_CAPTURE_UNJOINED": 904,
    "CUDA_ERROR_STREAM_CAPTURE_ISOLATION": 905,
    "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT": 906,
    "CUDA_ERROR_CAPTURED_EVENT": 907,
    "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD": 908,
    "CUDA_ERROR_TIMEOUT": 909,
    "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE": 910,
    "CUDA_ERROR_EXTERNAL_DEVICE": 911,
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": 912,
    "CUDA_ERROR_FUNCTION_NOT_LOADED": 913,
    "CUDA_ERROR_INVALID_RESOURCE_TYPE": 914,
    "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION": 915,
    "CUDA_ERROR_KEY_ROTATION": 916,
    "CUDA_ERROR_UNKNOWN": 999,
}
