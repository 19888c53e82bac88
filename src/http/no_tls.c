// SPDX-License-Identifier: Apache-2.0
/* Debian builds libmicrohttpd with TLS. We serve plain HTTP and link the archive, so this
 * file defines the functions of GnuTLS that the archive refers to. Initialisation and its
 * reverse do nothing; the others are never reached by a daemon without MHD_USE_TLS. GnuTLS
 * itself has no complete static archive (it needs p11-kit, which is shared only), and would
 * add 7 MB in nine libraries for nothing. A new version of libmicrohttpd that refers to more
 * of GnuTLS does not link. */
#include <stdlib.h>

#define STARTS(name)      \
	int name(void);   \
	int name(void)    \
	{                 \
		return 0; \
	}
STARTS(gnutls_global_init)
STARTS(gnutls_global_deinit)

#define NEVER_CALLED(X)                               \
	X(gnutls_alpn_set_protocols)                  \
	X(gnutls_bye)                                 \
	X(gnutls_certificate_allocate_credentials)    \
	X(gnutls_certificate_free_credentials)        \
	X(gnutls_certificate_server_set_request)      \
	X(gnutls_certificate_set_dh_params)           \
	X(gnutls_certificate_set_retrieve_function2)  \
	X(gnutls_certificate_set_retrieve_function3)  \
	X(gnutls_certificate_set_x509_key_mem)        \
	X(gnutls_certificate_set_x509_key_mem2)       \
	X(gnutls_certificate_set_x509_trust_mem)      \
	X(gnutls_cipher_get)                          \
	X(gnutls_credentials_set)                     \
	X(gnutls_deinit)                              \
	X(gnutls_dh_params_deinit)                    \
	X(gnutls_dh_params_import_pkcs3)              \
	X(gnutls_dh_params_init)                      \
	X(gnutls_handshake)                           \
	X(gnutls_init)                                \
	X(gnutls_malloc)                              \
	X(gnutls_priority_deinit)                     \
	X(gnutls_priority_init)                       \
	X(gnutls_priority_set)                        \
	X(gnutls_protocol_get_version)                \
	X(gnutls_psk_allocate_server_credentials)     \
	X(gnutls_psk_free_server_credentials)         \
	X(gnutls_psk_set_server_credentials_function) \
	X(gnutls_record_check_pending)                \
	X(gnutls_record_get_direction)                \
	X(gnutls_record_recv)                         \
	X(gnutls_record_send)                         \
	X(gnutls_session_get_ptr)                     \
	X(gnutls_session_set_ptr)                     \
	X(gnutls_strerror)                            \
	X(gnutls_transport_set_int2)

#define ABORTS(name)     \
	void name(void); \
	void name(void)  \
	{                \
		abort(); \
	}
NEVER_CALLED(ABORTS)
