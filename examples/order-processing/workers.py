"""What the example does with an order: look the product up, and write the order down. Both may be slow, or fail."""

from plainbench.workers import Dead
from plainbench.workers.function import Job


def process(job: Job) -> Dead | None:
    """Accept the order if there is enough in stock, and turn it down if not.

    A message may come twice. The second time the order is there already, and neither it nor the stock changes.
    """
    order = job.value
    found = job.app.execute("SELECT price_cents FROM products WHERE id = ?", [order["product"]])
    if not found:
        return Dead(f"There is no product {order['product']}.")
    # A trigger takes what was ordered out of the stock, in the same transaction.
    job.app.execute(
        """
        INSERT INTO orders (id, customer, product, quantity, total_cents, accepted)
        SELECT :id, :customer, :product, :quantity, :quantity * price_cents, stock >= :quantity
        FROM products WHERE id = :product
        ON CONFLICT (id) DO NOTHING
        """,
        order,
    )
    return None
