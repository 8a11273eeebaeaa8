"""The README's ten lines: python ten_lines.py URL."""
import sys


def ship_order(number: int, token: int) -> None:
    print(f'order {number} shipped under token {token}')


def main(url: str) -> None:
    # doc: body
    import dlock

    with dlock.Client(url, ttl=30) as client:
        with client.lock("orders/42").hold(timeout=5) as held:
            ship_order(42, held.token)
    # end: body


if __name__ == '__main__':
    main(sys.argv[1])
