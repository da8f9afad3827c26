# SPDX-License-Identifier: Apache-2.0
"""A broker that is none: fake_broker.py SOCKET HOW

HOW: refuse (a sound HelloReply with status 803, as for another wire number),
junk, short (half a frame, then the end), huge (a header of 4 GiB), close,
type (a data frame). Serves until it is ended.
"""
import os
import socket
import struct
import sys


def frame(payload, kind=5, size=None):
    return struct.pack("<IBBH", len(payload) if size is None else size, kind,
                       0, 0) + payload


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def hello_reply(question):
    # id echoed (field 1, fixed64); hello_reply (11): status, message.
    reply = b"\x0d" + struct.pack("<I", 803) + field(
        2, b"wire number 1, this broker speaks 2")
    return frame(question[:9] + field(11, reply))


def serve(peer, how):
    if how == "close":
        return
    question = peer.recv(65536)[8:]
    answer = hello_reply(question)
    peer.sendall({"refuse": answer, "junk": os.urandom(300),
                  "short": answer[:20],
                  "huge": frame(b"", size=0xffffffff),
                  "type": frame(question, kind=2)}[how])


def main():
    path, how = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    while True:
        peer, _ = listener.accept()
        try:
            serve(peer, how)
        except OSError:         # it only looked whether we are there
            pass
        peer.close()


main()
