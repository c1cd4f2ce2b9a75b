#!/bin/bash
# The head of the Ray cluster, and beside it the front: log, routing, HTTP. When one of them ends, the container does.
# SIGTERM goes to the front, which drains; Ray ends with the container.
set -u
ulimit -n 65536
$KUBERAY_GEN_RAY_START_CMD &
ray=$!
until ray health-check 2> /dev/null; do
  kill -0 "$ray" || exit 1
  sleep 1
done
RAY_ADDRESS=auto dygcn run /etc/dygcn/dygcn.toml &
front=$!
trap 'kill -TERM "$front"; wait "$front"; exit' TERM
wait -n
exit 1
