"""`python -m hvd_gossip` is `hvd-gossip`."""

from hvd_gossip.cli import main

if __name__ == "__main__":
    main()
