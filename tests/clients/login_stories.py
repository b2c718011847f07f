"""kafka-python and aiokafka log in and write: `python -m tests.clients.login_stories …`.

BOOTSTRAP CA_FILE USER PASSWORD TOPIC      prints "done"
"""

import asyncio
import sys

import aiokafka
import kafka
from aiokafka.helpers import create_ssl_context

DEADLINE_S = 60.0


def main(bootstrap: str, authority: str, user: str, password: str, topic: str) -> None:
    login = {
        "bootstrap_servers": bootstrap.split(","),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }
    producer = kafka.KafkaProducer(**login, ssl_cafile=authority)
    first = producer.send(topic, b"python", partition=0).get(DEADLINE_S)
    producer.close()

    async def send() -> int:
        context = create_ssl_context(cafile=authority)
        async with aiokafka.AIOKafkaProducer(**login, ssl_context=context) as one:
            sent = await one.send_and_wait(topic, b"asyncio", partition=0)
            return int(sent.offset)

    assert asyncio.run(send()) > first.offset
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
