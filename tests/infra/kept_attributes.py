"""Two attributes that AWS answers as given and moto forgets: Terraform would plan both again.

ECS   availabilityZoneRebalancing of a service
EC2   Description of a security group's rule whose source is another group
"""

from typing import Any

import pytest

AWS_DEFAULT = "ENABLED"
"""Of a new ECS service whose request does not say it."""


def keep_attributes(patch: pytest.MonkeyPatch) -> None:
    """Have moto in this process keep them, while `patch` holds."""
    from moto.ec2.models.security_groups import SecurityGroupRule
    from moto.ecs.responses import EC2ContainerServiceResponse

    created = EC2ContainerServiceResponse.create_service

    def create_service(request: Any) -> Any:
        answer: Any = created(request)
        given = request._get_param("availabilityZoneRebalancing")
        answer.result["service"].availability_zone_rebalancing = given or AWS_DEFAULT
        return answer

    def description(rule: Any) -> Any:
        return rule.ip_range.get("Description") or (rule.source_group or {}).get("Description")

    patch.setattr(EC2ContainerServiceResponse, "create_service", create_service)
    patch.setattr(SecurityGroupRule, "description", property(description))
