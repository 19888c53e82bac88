# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the Kubernetes API server: what the client tests need of it, with its rules."""
