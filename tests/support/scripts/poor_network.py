"""Hosts on a network that delays and loses packets, for machines whose kernel has no netem: poor_network.py PREFIX NET COUNT.

Makes the network namespaces PREFIX1 … PREFIXCOUNT with the addresses NET.1 …, as 198.19.7.1; this machine is NET.254. Each of them has
a tun device, and this process carries the packets between them. Says `ready`, or why it can't. Then each line of stdin is JSON and
answered with `done`: {"delay": SECONDS of each packet, "loss": SHARE of packets that never come, "cut": [HOST …] without a link,
counted from 1}. What is not named is as it should be. It ends with stdin, and removes what it made.
"""
import fcntl
import heapq
import json
import os
import random
import selectors
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
HERE = 254


def ip(*words):
    subprocess.run(["ip", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def open_tun(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


class Network:
    def __init__(self, prefix, net, count):
        self.prefix, self.net, self.hosts = prefix, net, range(1, count + 1)
        self.links = {}  # by the last part of the address
        self.waiting, self.number = [], 0  # packets on their way: when they come, where
        self.set({})

    def set(self, wanted):
        self.delay, self.loss, self.cut = wanted.get("delay", 0), wanted.get("loss", 0), set(wanted.get("cut", []))

    def make(self):
        for host in [HERE, *self.hosts]:
            name = f"{self.prefix}t{host}"
            self.links[host] = open_tun(name)
            inside = []
            if host != HERE:
                ip("netns", "add", f"{self.prefix}{host}")
                ip("link", "set", name, "netns", f"{self.prefix}{host}")
                inside = ["-n", f"{self.prefix}{host}"]
                ip(*inside, "link", "set", "lo", "up")
            ip(*inside, "addr", "add", f"{self.net}.{host}/24", "dev", name)
            ip(*inside, "link", "set", name, "up")

    def remove(self):
        for link in self.links.values():
            os.close(link)
        for host in self.hosts:
            subprocess.run(["ip", "netns", "delete", f"{self.prefix}{host}"], stderr=subprocess.DEVNULL)

    def take(self, sender):
        try:
            packet = os.read(self.links[sender], 65536)
        except BlockingIOError:
            return
        if packet[0] >> 4 != 4 or packet[19] not in self.links or {sender, packet[19]} & self.cut or random.random() < self.loss:
            return
        self.number += 1
        heapq.heappush(self.waiting, (time.monotonic() + self.delay, self.number, packet[19], packet))

    def deliver(self):
        """Those that have come; how long until the next one comes."""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            _, _, host, packet = heapq.heappop(self.waiting)
            if host in self.cut:
                continue
            try:
                os.write(self.links[host], packet)
            except OSError:
                pass  # the device takes no more just now: that packet is lost
        return max(0, self.waiting[0][0] - time.monotonic()) if self.waiting else None

    def carry(self):
        selector = selectors.DefaultSelector()
        for host, link in self.links.items():
            selector.register(link, selectors.EVENT_READ, host)
        selector.register(sys.stdin, selectors.EVENT_READ, None)
        while True:
            for key, _ in selector.select(self.deliver()):
                if key.data is not None:
                    self.take(key.data)
                    continue
                line = sys.stdin.readline()
                if not line:
                    return
                self.set(json.loads(line))
                print("done", flush=True)


def main():
    network = Network(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    try:
        network.make()
        print("ready", flush=True)
        network.carry()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no network: {error}", flush=True)
    finally:
        network.remove()


main()
