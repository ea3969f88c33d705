import click


@click.command()
def evaluate() -> None:
    """evaluate"""
